//! Tests of tasks that take several steps, on every device of this machine.

mod countdown;

use std::sync::Arc;

use pelton::device::{Device, open};
use pelton::kernel::{Handler, Telemetry, Width};
use pelton::protocol::FaultCode;
use pelton::{Batch, Drain, Geometry, Priority, Spec, Task, TaskError};

use crate::countdown::{countdown, countdown_result, group_countdown};

/// Returns the devices of this machine.
fn devices() -> Vec<Arc<dyn Device>> {
    let gpu = open("cuda").is_ok().then_some("cuda");
    ["cpu", "reference"].into_iter().chain(gpu).map(|name| open(name).unwrap()).collect()
}

fn fault(code: FaultCode) -> Result<u32, TaskError> {
    Err(TaskError::Fault(pelton::protocol::TaskFault { code, inner: 0 }))
}

fn run(drain: &mut Drain, tasks: &[Task]) -> Vec<Result<u32, TaskError>> {
    let mut batch = Batch::new();
    for task in tasks {
        batch.push(0, *task).unwrap();
    }
    drain.run(&batch).unwrap().outcomes().unwrap().collect()
}

fn geometries() -> [Geometry; 3] {
    [Geometry::new(64).lanes(1).groups(1), Geometry::new(512).lanes(32).groups(2), Geometry::new(4096)]
}

#[test]
fn tasks_that_yield_end_with_their_results_and_all_steps_are_counted() {
    for device in devices() {
        for geometry in geometries() {
            let spec = Spec::new(geometry.clone())
                .handler("countdown", countdown())
                .handler("plain", Handler::lane_wide(|task| task.finish(task.arg(0) + 1)))
                .handler("group", group_countdown());
            let mut drain = Drain::new(&device, &spec).unwrap();
            let op = |name| spec.opcode(name).unwrap();
            let (mut tasks, mut results, mut begun, mut yields) = (Vec::new(), Vec::new(), 0, 0);
            for k in 0..300u32 {
                let (times, name) = ((k * 7) % 23, ["countdown", "plain", "group"][k as usize % 3]);
                tasks.push(Task::new(op(name)).args([times, k]));
                if name == "plain" {
                    results.push(Ok(times + 1));
                } else {
                    results.push(Ok(countdown_result(times, k)));
                    // One step stores the argument, and one ends the task.
                    (begun, yields) = (begun + u64::from(times) + 3, yields + u64::from(times) + 2);
                }
            }
            let name = &device.caps().name;
            assert_eq!(run(&mut drain, &tasks), results, "{name} {geometry:?}");
            let steps = drain.readback().statistics().steps.unwrap();
            assert_eq!(
                (steps.begun, steps.yields, steps.requeues),
                (begun, yields, 0),
                "{name} {geometry:?}"
            );
            // A second run starts with empty frames.
            assert_eq!(run(&mut drain, &tasks), results, "{name} {geometry:?}: a second run");
            assert_eq!(drain.readback().statistics().steps.unwrap(), steps, "{name} {geometry:?}");
        }
    }
}

#[test]
fn outcomes_have_an_order() {
    // The first argument is a set of bits: 1 yields, 2 requeues, 4 faults. The second step ends.
    let handler = Handler::from_text(
        "import fn yield_now()
         import fn requeue(%level: u32)
         buffer arg: [u32; 12] global read
         buffer frame: [u32; 1] global read_write
         fn mixed() -> u32 {
           %step = load @frame[0]
           %next = add %step, 1
           store @frame[0], %next
           %what = load @arg[0]
           %first = eq %step, 0
           if %first {
             %a = and %what, 1
             %yields = ne %a, 0
             if %yields { call yield_now() yield }
             %b = and %what, 2
             %requeues = ne %b, 0
             if %requeues { %level = load @arg[1] call requeue(%level) yield }
             %c = and %what, 4
             %faults = ne %c, 0
             if %faults { fault 0x123 yield }
             yield
           }
           return %next
         }",
    );
    for device in devices() {
        let spec = Spec::default().handler("mixed", handler.clone());
        let mut drain = Drain::new(&device, &spec).unwrap();
        let mut check = |what: u32, level: u32, ends, counts: (u64, u64, u64)| {
            let task = Task::new(spec.opcode("mixed").unwrap()).args([what, level]);
            assert_eq!(run(&mut drain, &[task]), [ends], "{what} on {}", device.caps().name);
            let steps = drain.readback().statistics().steps.unwrap();
            assert_eq!((steps.begun, steps.yields, steps.requeues), counts, "{what}");
        };
        let user = fault(FaultCode::user(0x123).unwrap());
        check(0, 0, Ok(1), (1, 0, 0));
        check(1, 0, Ok(2), (2, 1, 0));
        check(2, 4, Ok(2), (2, 0, 1));
        check(3, 0, Ok(2), (2, 0, 1));
        check(4, 0, user, (1, 0, 0));
        check(7, 0, user, (1, 0, 0));
        check(2, 5, fault(FaultCode::ARGUMENTS), (1, 0, 0));
    }
}

#[test]
fn a_task_that_never_ends_runs_out_of_steps_and_holds_up_nothing_else() {
    let forever = Handler::lane_wide(|task| task.yield_now());
    let group = Handler::group_wide(|group| group.yield_now());
    for device in devices() {
        let spec = Spec::default()
            .max_steps(50)
            .handler("forever", forever.clone())
            .handler("group", group.clone())
            .handler("countdown", countdown());
        let mut drain = Drain::new(&device, &spec).unwrap();
        let task = |name, times| Task::new(spec.opcode(name).unwrap()).args([times, 0]);
        let tasks = [task("forever", 0), task("countdown", 47), task("group", 0), task("countdown", 48)];
        let results = [
            fault(FaultCode::FUEL),
            Ok(countdown_result(47, 0)),
            fault(FaultCode::FUEL),
            fault(FaultCode::FUEL),
        ];
        assert_eq!(run(&mut drain, &tasks), results, "{}", device.caps().name);
        assert_eq!(drain.readback().statistics().steps.unwrap().begun, 200);
    }
}

#[test]
fn fuel_is_given_for_every_step() {
    // Each step takes most of the fuel.
    let busy = Handler::lane_wide(|task| {
        let (f, turns) = (task.body(), task.frame_word());
        let sum = f.range((0u32, task.arg(1), 1u32), f.lit(0u32), |_, k, sum| sum + k);
        turns.store(turns.load() + 1);
        f.when(turns.load().lt(task.arg(0)), || task.yield_now());
        task.finish(sum);
    });
    for device in devices() {
        let spec = Spec::default().fuel(1000).handler("busy", busy.clone());
        let mut drain = Drain::new(&device, &spec).unwrap();
        let task = |turns, work| Task::new(spec.opcode("busy").unwrap()).args([turns, work]);
        let ends = [Ok(900 * 899 / 2), fault(FaultCode::FUEL)];
        assert_eq!(run(&mut drain, &[task(20, 900), task(20, 1100)]), ends, "{}", device.caps().name);
    }
}

#[test]
fn a_yield_lets_the_others_of_its_window_go_first() {
    // Each task writes the order of its steps: the last task to begin is the one that the first waits for.
    let wait = Handler::lane_wide(|task| {
        let f = task.body();
        f.when(task.load(0).eq(0), || task.yield_now());
        task.finish(task.load(0));
    });
    let set = Handler::lane_wide(|task| {
        task.step(|| {});
        task.store(0, task.arg(0));
        task.finish(0);
    });
    for device in devices() {
        let spec = Spec::new(Geometry::new(64).lanes(1).groups(1))
            .handler("wait", wait.clone())
            .handler("set", set.clone());
        let mut drain = Drain::new(&device, &spec).unwrap();
        drain.view::<u32>(0, "data").unwrap().write(0, &[0]).unwrap();
        let op = |name| spec.opcode(name).unwrap();
        let tasks = [Task::new(op("wait")), Task::new(op("set")).args([7])];
        assert_eq!(run(&mut drain, &tasks), [Ok(7), Ok(0)], "{}", device.caps().name);
    }
}

#[test]
fn frames_end_where_the_handler_says() {
    // Word 2 lies beyond the frame, even though another handler has larger frames.
    let small = Handler::from_text(
        "import fn yield_now()
         buffer arg: [u32; 12] global read
         buffer frame: [u32; 2] global read_write
         fn small() -> u32 {
           %at = load @arg[0]
           %step = load @frame[0]
           %first = eq %step, 0
           store @frame[0], 1
           if %first {
             store @frame[%at], 77
             call yield_now()
             yield
           }
           %kept = load @frame[%at]
           %len = len @frame
           %both = add %kept, %len
           return %both
         }",
    );
    for device in devices() {
        let spec = Spec::default().handler("small", small.clone()).handler("countdown", countdown());
        let mut drain = Drain::new(&device, &spec).unwrap();
        let op = spec.opcode("small").unwrap();
        let tasks: Vec<Task> = [1, 2, 3, 255, u32::MAX].iter().map(|at| Task::new(op).args([*at])).collect();
        let ends = [Ok(79), Ok(2), Ok(2), Ok(2), Ok(2)];
        assert_eq!(run(&mut drain, &tasks), ends, "{}", device.caps().name);
    }
}

#[test]
fn what_cannot_take_steps_is_refused_by_name() {
    let device = open("cpu").unwrap();
    let refused = |spec: Spec| Drain::new(&device, &spec).err().unwrap().to_string();
    let text = |text: &str| Spec::default().handler("h", Handler::from_text(text));
    let framed = "buffer frame: [u32; 2] global read_write fn h() -> u32 { %x = load @frame[0] return %x }";
    assert!(refused(text(framed)).contains("never calls `yield_now` or another verb that lets it go on"));
    let long = "import fn yield_now() buffer frame: [u32; 257] global read_write fn h() -> u32 { call yield_now() return 0 }";
    assert!(refused(text(long)).contains("with 1 to 256 words"), "{}", refused(text(long)));
    let region = "import fn yield_now() buffer frame: [u32; ?] global read_write fn h() -> u32 { call yield_now() return 0 }";
    assert!(refused(text(region)).contains("with 1 to 256 words"));
    let group = Handler::from_text("import fn yield_now() fn h() -> u32 { call yield_now() return 0 }");
    let why = refused(Spec::default().handler("h", group.width(Width::Group)));
    assert!(why.contains("import uniform fn yield_now"), "{why}");
    let near = "import fn yield_nwo() fn h() -> u32 { call yield_nwo() return 0 }";
    assert!(refused(text(near)).contains("did you mean `yield_now`?"), "{}", refused(text(near)));
    assert!(refused(Spec::default().max_steps(0)).contains("steps"));
    assert!(refused(Spec::default().max_steps(Spec::MAX_STEPS + 1)).contains("steps"));
}

#[test]
fn without_telemetry_steps_run_and_are_not_counted() {
    for device in devices() {
        let spec = Spec::default().telemetry(Telemetry::Off).handler("countdown", countdown());
        let mut drain = Drain::new(&device, &spec).unwrap();
        let task = Task::new(spec.opcode("countdown").unwrap()).args([5, 1]).priority(Priority::High);
        assert_eq!(run(&mut drain, &[task; 3]), [Ok(16); 3]);
        assert_eq!(drain.readback().statistics().steps, None);
    }
}
