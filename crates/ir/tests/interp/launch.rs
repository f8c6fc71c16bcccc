//! What is refused, and how it is said.

use pelton_ir::builder::Builder;
use pelton_ir::interp::{BoundWords, InterpKernel, InterpLaunch, LaunchError, LoadError, Schedule};
use pelton_ir::module::{Module, NoKernel};
use pelton_ir::types::{Access, Len, Space};
use pelton_ir::valid::validate;

use crate::{launch, long, program, words};

fn load(module: Module, kernel: Option<&str>) -> Result<InterpKernel, LoadError> {
    InterpKernel::new(&validate(module).expect("the module is valid"), kernel)
}

#[test]
fn a_kernel_must_be_there() {
    let two = || {
        let mut m = Builder::new();
        m.function::<(), ()>("help", |_, ()| ());
        m.kernel("a", |_| ());
        m.kernel("b", |_| ());
        m.finish()
    };
    assert!(load(two(), Some("b")).is_ok());
    let message = |kernel| load(two(), kernel).expect_err("it is refused").to_string();
    assert_eq!(message(None), "the module has 2 kernels, so one must be named: a, b");
    assert_eq!(message(Some("c")), "the module has no kernel \"c\"; it has a, b");
    assert_eq!(message(Some("help")), "`help` is not a kernel");
    assert_eq!(
        load(Module::default(), None).expect_err("it is refused"),
        LoadError::Kernel(NoKernel::Unnamed { have: vec![] })
    );
}

#[test]
fn asynchronous_copies_are_refused_by_name() {
    let copy = |called: bool| {
        let mut m = Builder::new();
        let data = m.buffer::<u32>("data", Len::Fixed(8), Space::Global, Access::ReadWrite);
        let copy = m.function::<(), ()>("copy", |f, ()| f.async_load(data.at(0), data.at(4), 4, 1));
        let wait = m.function::<(), ()>("wait", |f, ()| f.async_wait(1));
        m.kernel("main", |f| {
            if called {
                f.call(copy, ())
            }
        });
        m.kernel("other", |f| f.call(wait, ()));
        m.finish()
    };
    assert!(load(copy(false), Some("main")).is_ok(), "what is not called is not run");
    let message = |kernel| load(copy(true), Some(kernel)).expect_err("it is refused").to_string();
    assert_eq!(message("main"), "`async_load` does not run on the reference device");
    assert_eq!(message("other"), "`async_wait` does not run on the reference device");
}

#[test]
fn a_launch_must_fit_the_module() {
    let mut m = Builder::new();
    m.buffer::<f32>("data", Len::Launch, Space::Global, Access::ReadWrite);
    m.buffer::<u64>("long", Len::Fixed(2), Space::Host, Access::Read);
    m.buffer::<u32>("own", Len::Fixed(4), Space::Shared, Access::ReadWrite);
    m.kernel("main", |_| ());
    let p = program(m);
    let (data, wide) = (words(&[0; 5]), long(&[0; 3]));
    let (w32, w64) = (BoundWords::W32(&data), BoundWords::W64(&wide[..2]));
    let good = launch(1, 1, &[w32, w64, BoundWords::None]);
    assert!(p.run(&good).is_ok());
    let bound =
        |buffers: &[BoundWords<'_>]| p.run(&launch(1, 1, buffers)).expect_err("it is refused").to_string();
    assert_eq!(bound(&[w32, w64]), "the module has 3 buffers, but 2 were given");
    assert_eq!(bound(&[BoundWords::None, w64, BoundWords::None]), "buffer `data` is not bound");
    assert_eq!(
        bound(&[w64, w64, BoundWords::None]),
        "buffer `data` has elements of type f32, so its words have 32 bits"
    );
    assert_eq!(
        bound(&[w32, w32, BoundWords::None]),
        "buffer `long` has elements of type u64, so its words have 64 bits"
    );
    let three = BoundWords::W64(&wide);
    assert_eq!(bound(&[w32, three, BoundWords::None]), "buffer `long` has 2 elements, but 3 were given");
    assert_eq!(bound(&[w32, w64, w32]), "buffer `own` is shared, so nothing can be bound to it");
}

#[test]
fn a_launch_has_a_shape() {
    let mut m = Builder::new();
    let own = m.buffer::<u32>("own", Len::Fixed(1000), Space::Shared, Access::ReadWrite);
    m.kernel("main", |f| f.store(own.at(f.lane()), 1));
    let p = program(m);
    let good = launch(1, 1, &[BoundWords::None]);
    let refused = |launch: InterpLaunch<'_>| p.run(&launch).expect_err("it is refused");
    let zero = |what| LaunchError::Zero { what };
    assert_eq!(refused(InterpLaunch { groups: 0, ..good.clone() }), zero("group"));
    assert_eq!(refused(InterpLaunch { lanes: 0, ..good.clone() }), zero("lane"));
    assert_eq!(refused(InterpLaunch { schedule: Schedule::Threads(0), ..good.clone() }), zero("thread"));
    assert_eq!(refused(InterpLaunch { lanes: 1025, ..good.clone() }), LaunchError::Lanes { lanes: 1025 });
    for subgroup in [0, 33] {
        assert_eq!(refused(InterpLaunch { subgroup, ..good.clone() }), LaunchError::Subgroup { subgroup });
    }
    assert!(p.run(&InterpLaunch { lanes: 1024, subgroup: 1, ..good.clone() }).is_ok());
    assert!(
        p.run(&InterpLaunch { groups: 3, schedule: Schedule::Threads(1_000_000), ..good.clone() }).is_ok()
    );
    let explore =
        |groups, lanes| InterpLaunch { groups, lanes, schedule: Schedule::Explore(0), ..good.clone() };
    assert!(p.run(&explore(4, 16)).is_ok());
    assert_eq!(refused(explore(1, 65)), LaunchError::Explore { words: 1000, lanes: 65 });
    assert_eq!(refused(explore(5, 1)), LaunchError::Explore { words: 5000, lanes: 5 });
}
