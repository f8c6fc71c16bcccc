//! How the steps of resumable tasks are shared: by weight, by level, and not at all while a tenant is paused.

use std::time::Duration;

use pelton::kernel::Handler;
use pelton::{Claim, Geometry, Placement, Priority, Session, Spec, Task, TaskError, Tenant};

use crate::countdown::countdown;
use crate::{LONG, devices, everywhere, wait_for, with_handlers};

/// Counts its steps in element 0 of `data` of its own tenant, and yields until element 1 is set.
fn until_told() -> Handler {
    Handler::lane_wide(|task| {
        let f = task.body();
        task.atomic_add(0u32, 1u32);
        f.when(task.load(1).eq(0), || task.yield_now());
        task.finish(0);
    })
}

#[test]
fn steps_are_shared_by_weight_whatever_the_number_of_tasks() {
    for device in devices() {
        for placement in [Placement::Near, Placement::Far] {
            let geometry = Geometry::new(256).lanes(1).groups(1);
            let spec = Spec::new(geometry)
                .placement(placement)
                .cells(256)
                .handler("until", until_told())
                .tenant(Tenant::new(0).producers(16))
                .tenant(Tenant::new(1))
                .tenant(Tenant::new(2).weight(2));
            let session = match Session::launch(&device, &spec) {
                Ok(session) => session,
                Err(error) if error.to_string().contains("placement") => continue,
                Err(error) => panic!("{error}"),
            };
            let shape = format!("{} {placement:?}", device.caps().name);
            let op = session.opcode("until").unwrap();
            let producers = [vec![0; 16], vec![1], vec![2]].concat();
            let mut producers: Vec<_> =
                producers.into_iter().map(|tenant| session.producer(tenant).unwrap()).collect();
            let spans: Vec<_> = producers
                .iter_mut()
                .map(|producer| producer.submit_all(vec![Task::new(op); 100]).unwrap())
                .collect();
            let steps = || {
                [0, 1, 2].map(|tenant| {
                    f64::from(session.view::<u32>(tenant, "data").unwrap().read(0, 1).unwrap()[0])
                })
            };
            // Everything has been adopted when the last ring has been served.
            while steps().iter().any(|steps| *steps < 300.0) {
                std::thread::sleep(Duration::from_millis(1));
            }
            let before = steps();
            let few = device.caps().name.starts_with("reference");
            let enough = if few { 40_000.0 } else { 100_000.0 };
            while steps().iter().zip(before).map(|(now, before)| now - before).sum::<f64>() < enough {
                std::thread::sleep(Duration::from_millis(1));
            }
            let after = steps();
            let ran: Vec<f64> = after.iter().zip(before).map(|(now, before)| now - before).collect();
            let all: f64 = ran.iter().sum();
            let shares: Vec<f64> = ran.iter().map(|ran| ran / all).collect();
            // The weights are 1, 1 and 2.
            for (share, right) in shares.iter().zip([0.25, 0.25, 0.5]) {
                assert!((share - right).abs() < 0.05, "{shape}: the shares are {shares:?}");
            }
            for tenant in 0..3 {
                session.view::<u32>(tenant, "data").unwrap().write(1, &[1]).unwrap();
            }
            drop(spans);
            session.quiesce(LONG).unwrap();
        }
    }
}

#[test]
fn a_paused_tenant_begins_no_step_and_others_go_on() {
    let spec = |spec: Spec| {
        spec.cells(64)
            .handler("until", until_told())
            .handler("countdown", countdown())
            .tenant(Tenant::new(0))
            .tenant(Tenant::new(1))
    };
    everywhere(spec, |session, shape| {
        let op = |name| session.opcode(name).unwrap();
        let (mut one, mut other) =
            (session.producer(0).unwrap(), session.producer(1).unwrap().patience(LONG));
        let mut span = one.submit_all([Task::new(op("until")); 40]).unwrap();
        wait_for(session, 0, 100);
        session.pause_tenant(0).unwrap();
        session.pause_tenant(0).unwrap();
        let mut others = || {
            let mut ticket = other.submit(Task::new(op("countdown")).args([50, 0])).unwrap();
            assert_eq!(ticket.wait(LONG), Ok(1275), "{shape}");
            wait_for(session, 0, 0)
        };
        // Steps that had begun go on to their end.
        let mut before = others();
        loop {
            let now = others();
            if now == before {
                break;
            }
            before = now;
        }
        let mut ticket = one.submit(Task::new(op("countdown")).args([1, 1])).unwrap();
        assert_eq!((0..5).map(|_| others()).max(), Some(before), "{shape}: a paused tenant took a step");
        assert!(!ticket.has_ended(), "{shape}");
        session.view::<u32>(0, "data").unwrap().write(1, &[1]).unwrap();
        session.resume_tenant(0).unwrap();
        assert_eq!(span.wait(LONG).unwrap().done, 40, "{shape}");
        assert_eq!(ticket.wait(LONG), Ok(2), "{shape}");
    });
}

#[test]
fn cancelled_tasks_of_a_paused_tenant_end_and_the_others_wait() {
    let spec = |spec: Spec| {
        with_handlers(spec)
            .cells(64)
            .handler("until", until_told())
            .tenant(Tenant::new(0))
            .tenant(Tenant::new(1))
    };
    everywhere(spec, |session, shape| {
        let op = |name| session.opcode(name).unwrap();
        let mut one = session.producer(0).unwrap();
        let mut other = session.producer(1).unwrap().patience(LONG);
        let mut others = || {
            let mut ticket = other.submit(Task::new(op("countdown")).args([50, 0])).unwrap();
            assert_eq!(ticket.wait(LONG), Ok(1275), "{shape}");
            wait_for(session, 0, 0)
        };
        let mut kept = one.submit_all([Task::new(op("until")); 20]).unwrap();
        let mut cancelled = one.submit_all([Task::new(op("until")); 20]).unwrap();
        let mut waits = one.submit(Task::new(op("waits")).args([9, 0])).unwrap();
        wait_for(session, 9, 1);
        let cells = || session.snapshot().unwrap().cells.unwrap();
        while cells().runnable < 40 {
            std::thread::sleep(Duration::from_micros(100));
        }
        session.pause_tenant(0).unwrap();
        let mut before = others();
        loop {
            let now = others();
            if now == before {
                break;
            }
            before = now;
        }
        let queued = || -> u64 {
            cells().ready.iter().filter(|ready| ready.tenant == "0").map(|ready| ready.count).sum()
        };
        let since = std::time::Instant::now();
        while queued() != 40 {
            assert!(since.elapsed() < LONG, "{shape}: the tasks of the paused tenant wait in its queue");
            std::thread::sleep(Duration::from_micros(100));
        }
        // One ask makes a task that waits for the host go there too.
        cancelled.cancel();
        assert_eq!(cancelled.wait(LONG).unwrap().cancelled, 20, "{shape}");
        waits.cancel();
        assert_eq!(waits.wait(LONG), Err(TaskError::Cancelled { steps: 1 }), "{shape}");
        assert_eq!(others(), before, "{shape}: a paused tenant took a step");
        assert!(!kept.has_ended(), "{shape}");
        session.view::<u32>(0, "data").unwrap().write(1, &[1]).unwrap();
        session.resume_tenant(0).unwrap();
        assert_eq!(kept.wait(LONG).unwrap().done, 20, "{shape}");
    });
}

#[test]
fn idle_work_ends_under_endless_critical_load() {
    let spec = |spec: Spec| with_handlers(spec).cells(128).claim(Claim::PRIORITY);
    for device in devices() {
        for placement in [Placement::Near, Placement::Far] {
            let geometry = Geometry::new(256).lanes(1).groups(1);
            let session = match Session::launch(&device, &spec(Spec::new(geometry).placement(placement))) {
                Ok(session) => session,
                Err(error) if error.to_string().contains("placement") => continue,
                Err(error) => panic!("{error}"),
            };
            let mut producer = session.producer(0).unwrap().patience(LONG);
            let op = |name| session.opcode(name).unwrap();
            let critical = Task::new(op("forever")).args([1]).priority(Priority::Critical);
            let mut endless = producer.submit_all([critical; 100]).unwrap();
            wait_for(&session, 1, 200);
            let idle = Task::new(op("countdown")).args([20, 3]).priority(Priority::Idle);
            let mut idle = producer.submit_all([idle; 20]).unwrap();
            assert_eq!(idle.wait(LONG).unwrap().done, 20, "{} {placement:?}", device.caps().name);
            endless.cancel();
            assert_eq!(endless.wait(LONG).unwrap().cancelled, 100, "{} {placement:?}", device.caps().name);
        }
    }
}
