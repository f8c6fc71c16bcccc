//! Sessions from launch to stop, on every device of this machine.

mod pretend;

use std::sync::Arc;

use pelton::device::{Device, open};
use pelton::kernel::{Lifetime, SlotBody};
use pelton::{
    Aim, Claim, Deadline, Geometry, Handler, Opcode, Placement, Priority, Session, Span, Spec, SubmitError,
    Task, Tenant,
};

use pretend::PretendDevice;

fn devices() -> Vec<Arc<dyn Device>> {
    let here = ["cpu", "reference"].map(|name| open(name).unwrap());
    here.into_iter().chain(open("cuda")).collect()
}

fn add() -> Opcode {
    Opcode::user(8).unwrap()
}

fn spec() -> Spec {
    Spec::new(Geometry::new(64)).handler_at(
        add(),
        "add",
        Handler::lane_wide(|slot| {
            let (at, by) = (slot.arg(0), slot.arg(1));
            let sum = slot.atomic_add(at, by);
            slot.finish(sum);
        }),
    )
}

fn shapes() -> Vec<Spec> {
    let mut all = Vec::new();
    for placement in [Placement::Near, Placement::Far, Placement::Both] {
        for claim in [Claim::Owned, Claim::PRIORITY] {
            for lanes in [1, 8, 64] {
                let spec = spec().placement(placement).claim(claim);
                all.push(Spec { geometry: spec.geometry.clone().lanes(lanes), ..spec });
            }
        }
    }
    all
}

/// Catches a check that asks for the opcode alone, and one that forgets kernels with a single handler.
#[test]
fn a_kernel_has_a_provided_operation_if_its_spec_gives_a_handler() {
    let task = Task::new(Opcode::DFA_STEP).args([7, 0, 0]);
    for device in devices() {
        let without = Session::launch(&device, &spec()).unwrap();
        let mut producer = without.producer(0).unwrap();
        let refused = Some(SubmitError::NotImplemented(Opcode::DFA_STEP));
        assert_eq!(producer.check_task(&task).err(), refused);
        assert_eq!(producer.submit(task).err(), refused);
        assert_eq!(producer.submit_all([Task::new(Opcode::NOP), task]).err(), refused);
        without.stop().unwrap();
        for body in [SlotBody::Dispatch, SlotBody::Fused] {
            let step = Handler::lane_wide(|task| task.finish(task.arg(0) * 3));
            let with = Spec::default().handler_at(Opcode::DFA_STEP, "dfa_step", step).body(body);
            let session = Session::launch(&device, &with).unwrap();
            let mut producer = session.producer(0).unwrap();
            assert_eq!(producer.submit(task).unwrap().wait(Deadline::Never), Ok(21), "{body:?}");
        }
    }
}

#[test]
fn a_task_comes_back() {
    for device in devices() {
        let placed = |spec: &Spec| spec.placement.unwrap().is_available(device.caps());
        for spec in shapes().into_iter().filter(placed) {
            let what =
                format!("{} {:?} {:?} {:?}", device.caps().name, spec.placement, spec.claim, spec.geometry);
            let session = Session::launch(&device, &spec).unwrap_or_else(|e| panic!("{what}: {e}"));
            let mut producer = session.producer(0).unwrap();
            println!("{what}: {} groups", session.layout().groups);
            for k in 0..200 {
                let mut ticket = producer.submit(Task::new(add()).args([3, 5])).unwrap();
                assert_eq!(ticket.wait(Deadline::after_ms(20_000)), Ok(k * 5), "{what}");
            }
            let all = session.layout().largest_stripe();
            let mut span = producer.submit_all((0..all).map(|_| Task::new(add()).args([4, 1]))).unwrap();
            let ends = span.wait(Deadline::after_ms(20_000)).unwrap();
            assert_eq!(ends.done, all, "{what}");
            let mut results: Vec<u32> = span.results().map(|r| r.unwrap()).collect();
            let mut read = vec![u32::MAX; all as usize + 1];
            assert_eq!(span.read_results(&mut read), ends, "{what}");
            assert_eq!((&read[..results.len()], read.last()), (&results[..], Some(&u32::MAX)), "{what}");
            results.sort();
            assert_eq!(results, (0..all).collect::<Vec<_>>(), "{what}");
            drop(span);
            let tasks = [0, u32::MAX, 0].map(|at| Task::new(add()).args([at, 7]));
            let mut mixed = producer.submit_all(tasks).unwrap();
            let ends = mixed.wait(Deadline::after_ms(20_000)).unwrap();
            assert_eq!((ends.done, ends.faults), (2, 1), "{what}");
            let mut read = [9; 3];
            assert_eq!(mixed.read_results(&mut read), ends, "{what}");
            assert_eq!((read.iter().sum::<u32>(), read[1]), (7, 0), "{what}");
            drop((mixed, producer));
            session.quiesce(Deadline::after_ms(1000)).unwrap();
            assert_eq!(session.stop().unwrap().tasks_left(), 0, "{what}");
        }
    }
    let _ = (Lifetime::Drain, Deadline::Now, Priority::High);
}

#[test]
fn what_it_prints_and_counts() {
    for device in devices() {
        let spec = spec().format("sum {} of {:x}");
        let session = Session::launch(&device, &spec).unwrap();
        let mut producer = session.producer(0).unwrap();
        let mut span = producer
            .submit_all([
                Task::new(Opcode::PRINTF).args([1, 7, 255]),
                Task::new(add()).args([0, 3]),
                Task::new(Opcode::BATCH_FENCE).args([2, 9]),
            ])
            .unwrap();
        assert_eq!(span.wait(Deadline::after_ms(20_000)).unwrap().done, 3);
        assert_eq!(session.log().unwrap(), ["sum 7 of ff"]);
        assert_eq!(session.log().unwrap(), [""; 0]);
        assert_eq!(session.epoch().unwrap(), 1);
        let snapshot = session.snapshot().unwrap();
        assert_eq!(snapshot.done, 3, "{snapshot}");
        assert_eq!(snapshot.occupancy.done, 3, "{snapshot}");
        let of = |name: &str| snapshot.opcodes.iter().find(|c| c.name == name).unwrap().count;
        assert_eq!((of("add"), of("PRINTF"), of("BATCH_FENCE"), of("NOP")), (1, 1, 1, 0));
        assert_eq!(session.view::<u32>(0, "data").unwrap().read(0, 2).unwrap(), [3, 0]);
    }
}

#[test]
fn an_aim_decides_where_tasks_lie() {
    for device in ["cpu", "reference"].map(|name| open(name).unwrap()) {
        let spec = spec().placement(Placement::Both);
        let spec = Spec { geometry: spec.geometry.clone().groups(8), ..spec };
        // The tenant is disabled, so tasks stay in their rings.
        let session = Session::launch(&device, &spec.clone().tenant(Tenant::new(0).mask(0))).unwrap();
        let (near, far) =
            (session.layout().banks.near().copied().unwrap(), session.layout().banks.far().copied().unwrap());
        assert_eq!((near.groups, near.stripe_slots(), far.groups, far.stripe_slots()), (1, 64, 7, 64));
        let one = || Task::new(add());
        let few = |count: u32| (0..count).map(|_| Task::new(add()));
        let mut producer = session.producer(0).unwrap();
        let placed = [1, 4, 1, 5].map(|count| producer.submit_all(few(count)).unwrap());
        let found = placed.each_ref().map(Span::placement);
        // A few tasks go near while a near stripe is idle. Many at once, and tasks that would have to wait, go far.
        assert_eq!(found, [Placement::Near, Placement::Far, Placement::Far, Placement::Far]);
        producer = producer.aim(Aim::Throughput);
        assert_eq!(producer.submit(one()).unwrap().placement(), Placement::Far);
        producer.set_aim(Aim::Latency);
        let span = producer.submit_all(few(28)).unwrap();
        assert_eq!(span.placement(), Placement::Near);
        assert_eq!(producer.submit_all(few(36)).unwrap().placement(), Placement::Far);
        // A fence goes to the stripe of the tasks that it waits for.
        let fence = Task::new(Opcode::BATCH_FENCE).args([37]);
        let far = Err(SubmitError::FenceReach { count: 37, within: 36 });
        assert_eq!(producer.submit(fence).map(|ticket| ticket.placement()), far);
        let fence = Task::new(Opcode::BATCH_FENCE).args([36]);
        assert_eq!(producer.submit(fence).map(|ticket| ticket.placement()), Ok(Placement::Far));
        drop((placed, span, producer));
        assert_eq!(session.stop().unwrap().tasks_left(), 1 + 4 + 1 + 5 + 1 + 28 + 36 + 1);
        // A single group cannot serve both kinds of rings.
        let lone = Spec { geometry: spec.geometry.clone().groups(1), ..spec };
        let refused = Session::launch(&device, &lone).unwrap_err().to_string();
        assert_eq!(refused, "placement = both: it takes two groups that run tasks");
    }
}

#[test]
fn without_room_for_near_rings_there_are_far_ones() {
    let cpu = open("cpu").unwrap();
    let caps = |bytes| pelton::device::Caps { memory_bytes: Some(bytes), ..cpu.caps().clone() };
    for (bytes, found) in [(1 << 20, Placement::Both), (1, Placement::Far)] {
        let remote: Arc<dyn Device> = Arc::new(PretendDevice::new(cpu.clone(), caps(bytes)));
        let session = Session::launch(&remote, &spec()).unwrap();
        assert_eq!(session.layout().placement(), found);
        let mut producer = session.producer(0).unwrap();
        let mut ticket = producer.submit(Task::new(add()).args([3, 5])).unwrap();
        assert_eq!(ticket.wait(Deadline::after_ms(20_000)), Ok(0));
        // A spec that insists on near rings is refused if they do not fit.
        let asked = Session::launch(&remote, &spec().placement(Placement::Both)).map(|_| ());
        assert_eq!(asked.is_err(), bytes == 1);
    }
}

#[test]
fn a_group_keeps_the_control_words_where_host_memory_is_far() {
    for device in ["cpu", "reference"].map(|name| open(name).unwrap()) {
        for lanes in [8, 64] {
            let caps = pelton::device::Caps { memory_bytes: Some(1 << 30), ..device.caps().clone() };
            let remote: Arc<dyn Device> = Arc::new(PretendDevice::new(device.clone(), caps));
            let spec = spec().placement(Placement::Near);
            let spec = Spec { geometry: spec.geometry.clone().lanes(lanes).groups(2), ..spec };
            let session = Session::launch(&remote, &spec).unwrap();
            assert_eq!((session.layout().ring_stripes(), session.layout().groups), (2, 3));
            assert_eq!(session.layout().largest_stripe(), 64);
            let mut producer = session.producer(0).unwrap();
            for k in 0..100 {
                let mut ticket = producer.submit(Task::new(add()).args([3, 5])).unwrap();
                assert_eq!(ticket.wait(Deadline::after_ms(20_000)), Ok(k * 5), "{lanes} lanes");
            }
            let mut span = producer.submit_all((0..32).map(|_| Task::new(add()).args([4, 1]))).unwrap();
            assert_eq!(span.wait(Deadline::after_ms(20_000)).unwrap().done, 32);
            drop((span, producer));
            assert_eq!(session.stop().unwrap().tasks_left(), 0);
        }
    }
}

/// Catches near stripes that have fewer slots together than the geometry asks for.
#[test]
fn as_many_tasks_as_there_are_slots_can_always_be_submitted_at_once() {
    for device in ["cpu", "reference"].map(|name| open(name).unwrap()) {
        let caps = pelton::device::Caps {
            memory_bytes: Some(1 << 30),
            groups: 64,
            resident: 64,
            ..device.caps().clone()
        };
        let narrow: Arc<dyn Device> = Arc::new(PretendDevice::new(device, caps).with_resident(3));
        let session = Session::launch(&narrow, &spec().placement(Placement::Near)).unwrap();
        assert_eq!((session.layout().workers, session.layout().placement()), (2, Placement::Near));
        let mut producer = session.producer(0).unwrap();
        let mut span = producer.submit_all((0..64).map(|_| Task::new(add()).args([4, 1]))).unwrap();
        assert_eq!(span.wait(Deadline::after_ms(20_000)).unwrap().done, 64);
        drop((span, producer));
        assert_eq!(session.stop().unwrap().tasks_left(), 0);
    }
}
