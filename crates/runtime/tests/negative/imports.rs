//! Imports of handlers: what is bound is held to what the handler is held to, and what cannot be bound is refused by
//! name.

use pelton::ir::module::Module;
use pelton::ir::text::{self, ColorMode};
use pelton::kernel::{AssembleError, Width, assemble};
use pelton::protocol::FaultCode;
use pelton::{Error, Handler, Session, Spec, Task, Tenant};

use crate::common::*;

pub(crate) const TESTS: &[Test] = named![
    what_cannot_be_bound_is_refused_by_name,
    a_library_may_do_no_more_than_a_handler,
    a_library_stays_in_the_tenants_region,
    loops_of_a_library_burn_fuel,
    names_of_a_library_are_no_names_of_the_kernel,
    lanes_meet_in_uniform_imports_of_wide_handlers,
    libraries_that_nobody_imports_from_change_nothing,
];

/// The opcode of the handler that is tried.
const TRIED: u32 = 9;

fn library(source: &str) -> Module {
    text::parse(source).unwrap_or_else(|list| {
        panic!("{}", text::render_diagnostics("library", source, &list, ColorMode::Plain))
    })
}

/// Makes a handler from text, with the buffers that all handlers here have.
fn handler(body: &str) -> Handler {
    let buffers = "buffer arg: [u32; 12] global read\nbuffer data: [u32; ?] global read_write";
    Handler::from_text(&format!("{buffers}\n{body}"))
}

/// Makes a handler that returns what an import returns for its first argument.
fn calls(name: &str) -> Handler {
    handler(&format!(
        "import fn {name}(%x: u32) -> u32
        fn tried() -> u32 {{ %x = load @arg[0] %r = call {name}(%x) return %r }}"
    ))
}

fn refused(on: &On, spec: &Spec) -> AssembleError {
    match Session::launch(on, spec) {
        Err(Error::Refused(why)) => why,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was taken"),
    }
}

/// Catches an import that is bound to something else than its name and signature say, or to nothing.
fn what_cannot_be_bound_is_refused_by_name(on: &On) {
    let mix = "fn mix(%x: u32) -> u32 { return %x }";
    for shape in shapes(on, &[near(8), far(8)]) {
        let spec = shape.spec(64, 2);
        for (name, libraries, why) in [
            ("mix", &[][..], "no library has a function for the import `mix(u32) -> u32`"),
            (
                "mxi",
                &[mix],
                "no library has a function for the import `mxi(u32) -> u32` (did you mean `mix`?)",
            ),
            ("mix", &["fn mix(%x: f32) -> u32 { return 1 }"], "does not fit `mix(f32) -> u32`"),
            ("mix", &["kernel mix { }"], "no library has a function"),
            ("mix", &["fn mix(%x: u32) -> u32 { barrier return %x }"], "import uniform fn mix"),
            ("mix", &[mix, mix], "several libraries have a function `mix`"),
            (
                "mix",
                &["import fn mix(%x: u32) -> u32 fn other() { }"],
                "no library has a function for the import `mix(u32) -> u32`",
            ),
            (
                "mix",
                &[
                    "import fn other(%x: u32) -> u32 fn mix(%x: u32) -> u32 { %r = call other(%x) return %r }",
                    "import fn mix(%x: u32) -> u32 fn other(%x: u32) -> u32 { %r = call mix(%x) return %r }",
                ],
                "linking would make `mix` call itself: mix calls other calls mix",
            ),
            (
                "mix",
                &["import fn tried() -> u32 fn mix(%x: u32) -> u32 { %r = call tried() return %r }"],
                "libraries import from one another",
            ),
        ] {
            let spec = libraries.iter().fold(spec.clone(), |spec, source| spec.library(library(source)));
            let found = refused(on, &spec.handler_at(op(TRIED), "tried", calls(name)));
            assert!(matches!(&found, AssembleError::Import { name, .. } if name == "tried"), "{found}");
            assert!(found.to_string().contains(why), "{shape}: {found}");
        }
        // A verb that is only planned cannot be imported, and neither can a built-in operation.
        for name in ["spawn", "wait", "atomic_add", "load_u32", "dispatch", "printf"] {
            let found = refused(on, &spec.clone().handler_at(op(TRIED), "tried", calls(name)));
            assert!(found.to_string().contains(&format!("`{name}(u32) -> u32`")), "{found}");
        }
        let broken = spec.library(library(mix)).library(library("fn f() -> u32 { }"));
        let found = refused(on, &broken);
        assert!(matches!(found, AssembleError::Library { index: 1, .. }), "{found}");
    }
}

/// Catches library code that is not checked as the handler's own is.
fn a_library_may_do_no_more_than_a_handler(on: &On) {
    for shape in shapes(on, &[near(8), far(8)]) {
        for (body, word) in [
            ("trap 7", "trap"),
            ("backoff 1000", "backoff"),
            ("wake", "wake"),
            ("%g = group", "group"),
            ("%g = groups", "groups"),
        ] {
            let source = format!(
                "fn deep(%x: u32) -> u32 {{\n {body}\n return %x }}
                fn mix(%x: u32) -> u32 {{ %r = call deep(%x) return %r }}"
            );
            let found = refused(
                on,
                &shape.spec(64, 2).library(library(&source)).handler_at(op(TRIED), "tried", calls("mix")),
            );
            assert!(found.to_string().contains(&format!("`{word}`")), "{shape}: {body}: {found}");
        }
        // Lanes cannot meet in a handler that one lane runs, however it is imported.
        let meets = library("fn mix(%x: u32) -> u32 { barrier return %x }");
        let uniform =
            handler("import uniform fn mix(%x: u32) -> u32 fn tried() -> u32 { %r = call mix(1) return %r }");
        let found = refused(on, &shape.spec(64, 2).library(meets).handler_at(op(TRIED), "tried", uniform));
        assert!(found.to_string().contains("make the handler group-wide"), "{shape}: {found}");
        // The kernel's own buffers, the host's, and regions that the handler did not name.
        for buffer in [
            "host: [u64; ?] host read_write",
            "control: [u32; ?] global read_write",
            "slots: [u64; ?] global read_write",
            "faults: [u32; 256] shared read_write",
            "observable: [u32; ?] global read_write",
            "data: [u32; ?] global read",
            "arg: [u32; 12] global read_write",
        ] {
            let name = buffer.split(':').next().expect("it has a name");
            let source = format!("buffer {buffer} fn mix(%x: u32) -> u32 {{ %n = len @{name} return %n }}");
            let found = refused(
                on,
                &shape.spec(64, 2).library(library(&source)).handler_at(op(TRIED), "tried", calls("mix")),
            );
            assert!(found.to_string().contains(&format!("`mix` uses `buffer {buffer}`")), "{shape}: {found}");
        }
    }
}

/// Catches an access of a library that is not rebased to the tenant's piece, or not checked against its end.
fn a_library_stays_in_the_tenants_region(on: &On) {
    let put = library(
        "buffer data: [u32; ?] global read_write
        fn put(%at: u32) -> u32 { %old = load @data[%at] store @data[%at], 7 return %old }",
    );
    for shape in shapes(on, &[near(1), near(8), far(8)]) {
        for width in [Width::Lane, Width::Group] {
            let spec = shape.spec(64, 2).library(put.clone()).handler_at(
                op(TRIED),
                "tried",
                calls("put").width(width),
            );
            let spec = spec.tenant(Tenant::new(0).size("data", 16)).tenant(Tenant::new(1).size("data", 16));
            let session = launch(on, &spec);
            let (mut zero, mut one) = (session.producer(0).unwrap(), session.producer(1).unwrap());
            let all = |id| session.view::<u32>(id, "data").unwrap().read_all().unwrap();
            for at in [16, 17, 31, 32, 1 << 30, u32::MAX, u32::MAX - 15] {
                let found = run(&mut zero, Task::new(op(TRIED)).args([at]));
                assert_eq!(found, fault(FaultCode::REGION), "{shape}, {width:?}, {at}");
            }
            assert_eq!((all(0), all(1)), (vec![0; 16], vec![0; 16]), "{shape}, {width:?}");
            assert_eq!(run(&mut one, Task::new(op(TRIED)).args([3])), Ok(0), "{shape}, {width:?}");
            assert_eq!((all(0)[3], all(1)[3]), (0, 7), "{shape}, {width:?}");
        }
    }
}

/// Catches loops that are bound after it was decided which loops burn fuel.
fn loops_of_a_library_burn_fuel(on: &On) {
    let spin = library(
        "fn turns(%n: u32) -> u32 {
          %r: u32 = forever ^l with %k = 0 {
            %done = eq %k, %n
            if %done { break ^l %k }
            %next = add %k, 1
            yield %next
          }
          return %r
        }
        fn spin(%n: u32) -> u32 { %r = call turns(%n) return %r }",
    );
    for shape in shapes(on, &[near(1), near(8), far(8)]) {
        for width in [Width::Lane, Width::Group] {
            let spec = shape.spec(64, 2).fuel(1000).library(spin.clone()).handler_at(
                op(TRIED),
                "tried",
                calls("spin").width(width),
            );
            let session = launch(on, &spec);
            let mut producer = session.producer(0).unwrap();
            assert_eq!(run(&mut producer, Task::new(op(TRIED)).args([30])), Ok(30), "{shape}, {width:?}");
            let found = run(&mut producer, Task::new(op(TRIED)).args([5000]));
            assert_eq!(found, fault(FaultCode::FUEL), "{shape}, {width:?}");
            assert_eq!(run(&mut producer, add(1, 5)), Ok(0), "{shape}, {width:?}");
        }
    }
}

/// Catches a function of a library that takes the place of one of the kernel's or the handler's own.
fn names_of_a_library_are_no_names_of_the_kernel(on: &On) {
    let names =
        ["main", "dispatch", "packed", "retire", "light", "op.8", "add", "op8", "ATOMIC_ADD", "helper"];
    let hostile: String = names.iter().map(|n| format!("fn {n}(%x: u32) -> u32 {{ return 13 }}\n")).collect();
    for shape in shapes(on, &[near(1), near(8), far(8), both(8)]) {
        for name in names {
            let calls_all: String = names.iter().map(|n| format!("%{n} = call {n}(%x)\n")).collect();
            let top =
                format!("{hostile} fn top(%x: u32) -> u32 {{ {calls_all} %r = add %{name}, 1 return %r }}");
            let body = "import fn top(%x: u32) -> u32
                fn helper(%x: u32) -> u32 { %y = add %x, 100 return %y }
                fn tried() -> u32 { %x = load @arg[0] %a = call top(%x) %b = call helper(%a) return %b }";
            let spec = shape.spec(64, 2).library(library(&top)).handler_at(op(TRIED), "tried", handler(body));
            let session = launch(on, &spec);
            let mut producer = session.producer(0).unwrap();
            assert_eq!(run(&mut producer, Task::new(op(TRIED)).args([1])), Ok(114), "{shape}, {name}");
            assert_eq!(run(&mut producer, add(3, 5)), Ok(0), "{shape}, {name}");
            assert_eq!(data(&session)[5], 3, "{shape}, {name}");
        }
        // An import may have the name of a function of the kernel.
        let session = launch(
            on,
            &shape.spec(64, 2).library(library(&hostile)).handler_at(op(TRIED), "tried", calls("dispatch")),
        );
        let mut producer = session.producer(0).unwrap();
        assert_eq!(run(&mut producer, Task::new(op(TRIED)).args([1])), Ok(13), "{shape}");
    }
}

/// Catches a group-wide handler whose imported functions meet with too few lanes, or on shared memory that is not its
/// own.
fn lanes_meet_in_uniform_imports_of_wide_handlers(on: &On) {
    let sums = library(
        "buffer total: [u32; 1] shared read_write
        fn group_sum(%x: u32) -> u32 {
          %old = atomic_add relaxed group @total[0], %x
          barrier
          %sum = load @total[0]
          return %sum
        }",
    );
    let body = "buffer total: [u32; 1] shared read_write
        import uniform fn group_sum(%x: u32) -> u32
        fn tried() -> u32 { %x = load @arg[0] %s = call group_sum(%x) return %s }";
    for shape in shapes(on, &[near(1), near(8), far(32)]) {
        let spec = shape.spec(64, 2).library(sums.clone()).handler_at(
            op(TRIED),
            "tried",
            handler(body).width(Width::Group),
        );
        let session = launch(on, &spec);
        let mut producer = session.producer(0).unwrap();
        for _ in 0..3 {
            let found = run(&mut producer, Task::new(op(TRIED)).args([5]));
            assert_eq!(found, Ok(5 * shape.lanes), "{shape}");
        }
    }
}

/// Catches a library that changes a kernel which uses nothing of it.
fn libraries_that_nobody_imports_from_change_nothing(on: &On) {
    for shape in shapes(on, SOME) {
        let spec = shape.spec(64, 2);
        let with =
            spec.clone().library(library("need independent_subgroups fn mix(%x: u32) -> u32 { return %x }"));
        let plain = assemble(&spec, on.caps()).unwrap().module;
        assert_eq!(assemble(&with, on.caps()).unwrap().module, plain, "{shape}");
    }
}
