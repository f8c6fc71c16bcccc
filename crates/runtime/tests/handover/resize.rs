//! Other numbers of groups: every stripe is served by one of them, and nothing that groups have is lost.

use std::sync::{Arc, PoisonError};

use pelton::Placement::{Both, Far, Near};
use pelton::device::{Caps, Device, open};
use pelton::protocol::Priority;
use pelton::{
    Claim, Error, Geometry, HandOverError, Opcode, Placement, Region, Session, Spec, Task, Tenant, Ticket,
};
use pelton_ir::types::Type;

use crate::pretend::PretendDevice;
use crate::{ALONE, LONG, launch, park, parked, version};

/// Sizes that a session goes through that is launched with five groups, or with 48. Some of them divide the stripes of near
/// rings evenly and others do not. Beside far rings, one of sixteen groups polls near rings.
fn sizes(placement: Placement, launched: u32) -> &'static [u32] {
    match placement {
        Near => &[3, 1, 2, 5, 4, 5],
        Far => &[3, 1, 2, 7, 5],
        Both if launched == 5 => &[3, 2, 7, 5],
        Both => &[33, 2, 48],
    }
}

/// Two tenants that share the groups by weight, with rings of several levels, resumable tasks, events and payloads.
fn spec(placement: Placement, groups: u32, lanes: Option<u32>) -> Spec {
    let mut geometry = Geometry::new(16).groups(groups);
    geometry.lanes = lanes;
    let tenants = [Tenant::new(0).producers(2), Tenant::new(1).producers(1).weight(3)];
    let spec = Spec::new(geometry).placement(placement).claim(Claim::Priority { every: 4 });
    tenants
        .into_iter()
        .fold(spec, Spec::tenant)
        .cells(16)
        .events(2)
        .payload(8)
        .reply(8)
        .region(Region::new("data", Type::U32, 64))
        .handler("plain", version(100))
        .handler("parks", parked(1000, 1))
}

/// Fills all stripes of a ring with tasks while their tenant is disabled, so that the kernel has taken none of them when its
/// size changes. Each of the tasks adds one to an element of the tenant's data.
fn fill_ring(producer: &mut pelton::Producer, level: u32) -> Vec<Ticket> {
    let add = Task::new(Opcode::ATOMIC_ADD).args([1, level]).priority(Priority::ALL[level as usize]);
    let mut tickets = Vec::new();
    while let Ok(ticket) = producer.submit(add) {
        tickets.push(ticket);
    }
    tickets
}

fn every_size(session: &Session, shape: &str) {
    let placement = session.layout().placement();
    let mut producers: Vec<_> = [0, 0, 1].map(|tenant| session.producer(tenant).unwrap()).into();
    let mut ran = session.snapshot().unwrap().done;
    let levels = session.layout().levels;
    for groups in sizes(placement, session.layout().workers) {
        let mut waiting: Vec<Ticket> =
            producers.iter_mut().map(|producer| park(session, producer, 7)).collect();
        [0, 1].iter().for_each(|tenant| session.set_mask(*tenant, 0).unwrap());
        let mut tickets = Vec::new();
        for producer in &mut producers {
            tickets.extend((0..levels).flat_map(|level| fill_ring(producer, level)));
        }
        session.resize(*groups).unwrap();
        assert_eq!(session.layout().workers, *groups, "{shape}");
        assert_eq!(session.spec().geometry.groups, Some(*groups), "{shape}");
        [0, 1].iter().for_each(|tenant| session.set_mask(*tenant, u32::MAX).unwrap());
        let stripes = session.positions().len();
        assert_eq!(
            tickets.iter().map(|ticket| ticket.stripe()).collect::<std::collections::BTreeSet<_>>().len(),
            stripes,
            "{shape}: all stripes have tasks"
        );
        ran += tickets.len() as u64;
        let mut olds: Vec<Vec<u32>> = vec![Vec::new(); levels as usize * 2];
        let per_level = tickets.len() / 3 / levels as usize;
        for (at, ticket) in tickets.iter_mut().enumerate() {
            let (producer, level) = (at / per_level / levels as usize, at / per_level % levels as usize);
            olds[producer / 2 * levels as usize + level].push(ticket.wait(LONG).unwrap());
        }
        for (at, olds) in olds.iter_mut().enumerate() {
            let expected = if at < levels as usize { 2 * per_level } else { per_level };
            olds.sort();
            let first = olds[0];
            let all = first..first + expected as u32;
            assert!(olds.iter().copied().eq(all), "{shape}, {groups} groups: each task ran once");
        }
        drop(tickets);
        for (ticket, producer) in waiting.iter_mut().zip(&mut producers) {
            let mut fence = producer.submit(Task::new(Opcode::BATCH_FENCE)).unwrap();
            ticket.resume();
            assert_eq!(ticket.wait(LONG), Ok(1007), "{shape}, {groups} groups");
            fence.wait(LONG).unwrap();
            cancelled_waits_end(session, producer, shape);
        }
        session.quiesce(LONG).unwrap();
        ran += 9;
        assert_eq!(
            session.snapshot().unwrap().done,
            ran,
            "{shape}, {groups} groups: nothing is counted twice"
        );
    }
}

/// A cancelled task that waits for an event ends, whichever group serves it.
fn cancelled_waits_end(session: &Session, producer: &mut pelton::Producer, shape: &str) {
    let plain = session.opcode("plain").unwrap();
    let mut ticket = producer.submit(Task::new(plain).args([1]).after(1, 1_000_000)).unwrap();
    ticket.cancel();
    let ended = ticket.wait(LONG);
    assert!(matches!(ended, Err(pelton::TaskError::Cancelled { .. })), "{shape}: {ended:?}");
}

/// Opens the interpreter as a device with memory of its own, of whose kernels only so many groups fit.
fn open_apart(resident: u32) -> Arc<dyn Device> {
    let inner = open("reference").unwrap();
    let caps = Caps { name: "apart".into(), groups: 8, memory_bytes: Some(1 << 34), ..inner.caps().clone() };
    Arc::new(PretendDevice::new(inner, caps).with_resident(resident))
}

#[test]
fn every_stripe_is_served_whatever_the_size() {
    let gpu = open("cuda").is_ok().then_some("cuda");
    for name in ["cpu", "reference", "apart"].into_iter().chain(gpu) {
        let device = if name == "apart" { open_apart(16) } else { open(name).unwrap() };
        let _alone = (name == "cuda").then(|| ALONE.lock().unwrap_or_else(PoisonError::into_inner));
        let shapes: &[_] = match name {
            "cpu" => &[(Near, None), (Near, Some(32)), (Both, None), (Far, None)],
            "reference" => &[(Near, Some(1)), (Near, Some(32)), (Both, Some(1))],
            "apart" => &[(Near, Some(32)), (Both, Some(64))],
            _ => &[(Near, None), (Far, None), (Both, None)],
        };
        for (placement, lanes) in shapes.iter().filter(|(placement, _)| placement.is_available(device.caps()))
        {
            let session = Session::launch(&device, &spec(*placement, 5, *lanes)).unwrap();
            every_size(&session, &format!("{name} {placement:?} {lanes:?} lanes"));
        }
    }
}

#[test]
fn near_stripes_are_shared_beside_far_rings_too() {
    let session = launch(&spec(Both, 48, None));
    let near =
        |session: &Session| session.layout().banks.near().map(|bank| (bank.groups, bank.group_stripes()));
    assert_eq!(near(&session), Some((3, 1)));
    session.resize(33).unwrap();
    assert_eq!(near(&session), Some((2, 2)));
    session.resize(48).unwrap();
    every_size(&session, "cpu Both, 48 groups");
}

#[test]
fn impossible_sizes_are_refused_and_the_session_goes_on() {
    let near = Spec::new(Geometry::new(64).groups(3)).placement(Near).handler("plain", version(1));
    let session = launch(&near);
    let refused = |groups| match session.resize(groups) {
        Err(Error::HandOver(why @ HandOverError::Groups { .. })) => why.to_string(),
        other => panic!("it is refused: {other:?}"),
    };
    assert_eq!(refused(0), "this session needs at least 1 groups, and 0 were asked for");
    assert_eq!(
        refused(4),
        "this session can have at most 3 groups, because its near rings were divided among so many when it was launched, \
         and 4 were asked for: launch it with the most groups that it will need, and resize it down"
    );
    let both = launch(&near.clone().placement(Both));
    let too_few = both.resize(1).unwrap_err();
    assert!(matches!(too_few, Error::HandOver(HandOverError::Groups { least: 2, .. })), "{too_few}");
    let far = launch(&near.clone().placement(Far));
    let too_many = far.resize(1 << 20).unwrap_err();
    assert!(matches!(too_many, Error::Refused(_)), "{too_many}");
    let other = Spec { geometry: Geometry::new(128).groups(3), ..near.clone() };
    let refused = session.hand_over(&other, LONG).unwrap_err();
    assert!(matches!(refused, Error::HandOver(HandOverError::Axis { axis: "geometry.slots" })), "{refused}");
    // A session that has ended says so, whatever it is asked for.
    let mut ended = launch(&near);
    ended
        .move_to(&{
            let faults = pelton::device::null::Faults {
                trap_after: Some(std::time::Duration::ZERO),
                ..Default::default()
            };
            Arc::new(pelton::device::null::Null::new(faults)) as Arc<dyn Device>
        })
        .unwrap();
    while ended.session_end().is_none() {
        std::thread::yield_now();
    }
    for groups in [0, 3, 4] {
        let refused = ended.resize(groups).unwrap_err();
        assert!(matches!(refused, Error::Ended(_)), "{refused}");
    }
    for session in [&session, &both, &far] {
        let mut producer = session.producer(0).unwrap();
        let plain = session.opcode("plain").unwrap();
        assert_eq!(crate::run(&mut producer, plain, 1), Ok(2), "the session goes on");
        assert_eq!(session.layout().workers, 3);
    }
}

/// A group that polls many stripes needs memory for each of them.
#[test]
fn a_group_has_room_for_so_many_stripes_only() {
    let inner = open("reference").unwrap();
    let caps = Caps { shared_bytes: 1 << 15, ..inner.caps().clone() };
    let device: Arc<dyn Device> = Arc::new(PretendDevice::new(inner, caps));
    let spec = Spec::new(Geometry::new(4).groups(64).lanes(1).window(4)).placement(Near).producers(16);
    for spec in [spec.clone(), spec.handler("plain", version(1))] {
        let session = Session::launch(&device, &spec.claim(Claim::Priority { every: 4 })).unwrap();
        let refused = session.resize(1).unwrap_err().to_string();
        assert!(
            refused.contains("shared memory that a group needs for the rings that it polls"),
            "{refused}"
        );
        session.resize(32).unwrap();
        let mut producer = session.producer(0).unwrap();
        producer.submit(Task::new(Opcode::NOP)).unwrap().wait(LONG).unwrap();
    }
}

/// A session that names no number of groups has as many as its share of the device says.
#[test]
fn another_share_means_another_number_of_groups() {
    for placement in [Near, Far] {
        let spec = Spec::new(Geometry::new(64)).placement(placement).handler("plain", version(1));
        let session = launch(&spec);
        let all = session.layout().workers;
        session.hand_over(&spec.clone().share(1), LONG).unwrap();
        assert_eq!((session.layout().workers, session.spec().share), (1, 1), "{placement:?}");
        let plain = session.opcode("plain").unwrap();
        assert_eq!(crate::run(&mut session.producer(0).unwrap(), plain, 1), Ok(2), "{placement:?}");
        session.hand_over(&spec, LONG).unwrap();
        assert_eq!(session.layout().workers, all, "{placement:?}");
    }
    // Of these kernels fewer groups fit than the device could hold, and one of them runs no tasks.
    let spec = Spec::new(Geometry::new(64).lanes(32)).placement(Far).handler("plain", version(1));
    let session = Session::launch(&open_apart(3), &spec).unwrap();
    assert_eq!(session.layout().workers, 2);
    session.hand_over(&spec.clone().share(70), LONG).unwrap();
    assert_eq!(session.layout().workers, 1);
    session.hand_over(&spec, LONG).unwrap();
    assert_eq!(session.layout().workers, 2);
}
