//! What linking binds, what it refuses, and that nothing runs before.

use std::sync::atomic::{AtomicU32, Ordering};

use pelton_ir::emit::EmitError;
use pelton_ir::emit::ptx::{self, PtxConfig, PtxTarget};
use pelton_ir::interp::{BoundWords, InterpKernel, InterpLaunch, LoadError, Schedule};
use pelton_ir::limits::MAX_NAME;
use pelton_ir::link::{LinkError, UnboundImports, bind_imports, check_bound, link};
use pelton_ir::module::{FunctionKind, ImportFlow};
use pelton_ir::text::{self, ColorMode};
use pelton_ir::valid::{Valid, validate_text};

fn valid(source: &str) -> Valid {
    validate_text(source).unwrap_or_else(|list| {
        panic!("{}", text::render_diagnostics("text", source, &list, ColorMode::Plain))
    })
}

fn linked(module: &str, libraries: &[&str]) -> Result<Valid, LinkError> {
    let libraries: Vec<Valid> = libraries.iter().map(|source| valid(source)).collect();
    link(&valid(module), &libraries)
}

/// What a refusal says.
fn refusal(module: &str, libraries: &[&str]) -> String {
    linked(module, libraries).expect_err("it should not link").to_string()
}

/// Runs the only kernel of a module with one buffer of four words and gives what the words are afterwards.
fn run(module: &Valid) -> Vec<u32> {
    let words: Vec<AtomicU32> = [1, 2, 3, 4].map(AtomicU32::new).into();
    let program = InterpKernel::new(module, None).expect("it is bound");
    let launch = InterpLaunch {
        groups: 1,
        lanes: 4,
        subgroup: 32,
        buffers: module.buffers.iter().map(|_| BoundWords::W32(&words)).collect(),
        stop: None,
        deadline: None,
        schedule: Schedule::Threads(1),
    };
    program.run(&launch).expect("it runs");
    words.iter().map(|word| word.load(Ordering::Relaxed)).collect()
}

const MAIN: &str = "\
import fn twice(%x: u32) -> u32
buffer data: [u32; 4] global read_write
fn helper(%x: u32) -> u32 { %y = add %x, 100 return %y }
kernel main {
  %i = lane
  %x = load @data[%i]
  %y = call twice(%x)
  %z = call helper(%y)
  store @data[%i], %z
}";

#[test]
fn a_linked_module_runs_as_if_the_function_were_its_own() {
    // The library's helper has the name of one of the module's functions.
    let library = "fn unused() { trap 1 } fn helper(%x: u32) -> u32 { %y = add %x, %x return %y }
        fn twice(%x: u32) -> u32 { %y = call helper(%x) return %y } kernel main { }";
    let module = linked(MAIN, &[library]).expect("it links");
    assert_eq!(run(&module), [102, 104, 106, 108]);
    let names: Vec<&str> = module.functions.iter().map(|(_, f)| &*f.name).collect();
    assert_eq!(names, ["helper.2", "twice", "helper", "main"], "only what is called is taken");
    assert_eq!(text::parse(&text::print(&module)).expect("it prints"), *module);
}

#[test]
fn a_module_without_imports_stays_as_it_is() {
    let module = valid("kernel k { barrier }");
    assert_eq!(link(&module, &[valid("fn f() { }")]).expect("it links"), module);
}

#[test]
fn libraries_import_from_one_another() {
    let one = "import fn twice(%x: u32) -> u32 fn four(%x: u32) -> u32 { %y = call twice(%x) %z = call twice(%y) return %z }";
    let two = "fn twice(%x: u32) -> u32 { %y = add %x, %x return %y }";
    let module = "import fn four(%x: u32) -> u32 buffer data: [u32; 4] global read_write
        kernel main { %i = lane %x = load @data[%i] %y = call four(%x) store @data[%i], %y }";
    for libraries in [[one, two], [two, one]] {
        assert_eq!(run(&linked(module, &libraries).expect("it links")), [4, 8, 12, 16]);
    }
    assert_eq!(refusal(module, &[one]), "no library has a function for the import `twice(u32) -> u32`");
}

#[test]
fn libraries_use_the_buffers_of_the_module() {
    let module = "import fn put(%at: u32) buffer pad: [u32; 9] shared read_write buffer data: [u32; 4] global read_write
        kernel main { %i = lane call put(%i) }";
    let library = "buffer data: [u32; 4] global read_write buffer none: [u32; 1] global read
        fn put(%at: u32) { store @data[%at], 7 } fn other() { %x = load @none[0] }";
    let linked = linked(module, &[library]).expect("only what is called must fit");
    let data = linked.buffer("data").expect("it is the module's");
    let put = linked.function("put").expect("it was bound");
    assert!(linked.functions[put].insts().any(|(_, node)| node.buffer() == Some(data)));
    for (wrong, why) in [
        ("[u32; 4] global write", "the module has `buffer data: [u32; 4] global read_write` instead"),
        ("[u32; 8] global read_write", "the module has"),
        ("[u32; ?] global read_write", "the module has"),
        ("[u32; 4] host read_write", "the module has"),
    ] {
        let library = format!("buffer data: {wrong} fn put(%at: u32) {{ store @data[%at], 7 }}");
        let found = refusal(module, &[&library]);
        assert!(found.starts_with(&format!("`put` uses `buffer data: {wrong}`, and {why}")), "{found}");
    }
    let library = "buffer more: [u32; 4] global read_write fn put(%at: u32) { store @more[%at], 7 }";
    assert!(refusal(module, &[library]).ends_with("and the module has no buffer of that name"));
}

#[test]
fn what_cannot_be_bound_is_named() {
    for (libraries, why) in [
        (&[][..], "no library has a function for the import `twice(u32) -> u32`"),
        (
            &["fn twcie(%x: u32) -> u32 { return %x }"],
            "no library has a function for the import `twice(u32) -> u32` (did you mean `twcie`?)",
        ),
        (&["kernel twice { }"], "no library has a function for the import `twice(u32) -> u32`"),
        (
            &["import fn twice(%x: u32) -> u32"],
            "no library has a function for the import `twice(u32) -> u32`",
        ),
        (&["fn twice(%x: u32) { }"], "the import `twice(u32) -> u32` does not fit `twice(u32)`"),
        (
            &["fn twice(%x: f32, %y: u32) -> (u32, bool) { return %y, true }"],
            "the import `twice(u32) -> u32` does not fit `twice(f32, u32) -> (u32, bool)`",
        ),
        (
            &["fn twice(%x: u32) -> u32 { return %x }", "fn twice(%x: u32) -> u32 { return %x }"],
            "several libraries have a function `twice`",
        ),
        (
            &["import fn helper(%x: u32) -> u32 fn twice(%x: u32) -> u32 { %y = call helper(%x) return %y }"],
            "a library imports `helper(u32) -> u32`, which only the module itself has: libraries import from one another",
        ),
    ] {
        assert_eq!(refusal(MAIN, libraries), why, "{libraries:?}");
    }
    let two = "import fn f() import fn g(%x: u64) kernel k { call f() }";
    assert_eq!(refusal(two, &[]), "no library has a function for the imports `f()`, `g(u64)`");
}

#[test]
fn recursion_through_libraries_is_refused() {
    let one = "import fn other(%x: u32) -> u32 fn twice(%x: u32) -> u32 { %y = call other(%x) return %y }";
    let two = "import fn twice(%x: u32) -> u32 fn step(%x: u32) -> u32 { %y = call twice(%x) return %y }
        fn other(%x: u32) -> u32 { %y = call step(%x) return %y }";
    assert_eq!(
        refusal(MAIN, &[one, two]),
        "linking would make `twice` call itself: twice calls other calls step calls twice"
    );
    let own = "import fn twice(%x: u32) -> u32 fn mine(%x: u32) -> u32 { %y = call twice(%x) return %y }";
    let back = "import fn mine(%x: u32) -> u32 fn twice(%x: u32) -> u32 { %y = call mine(%x) return %y }";
    assert!(matches!(linked(MAIN, &[own, back]), Err(LinkError::Recursion { .. })));
}

#[test]
fn long_chains_of_libraries_take_no_stack() {
    let link_of = |k: usize| {
        let next = k + 1;
        format!("import fn f{next}() fn f{k}() {{ call f{next}() }}")
    };
    let mut libraries: Vec<String> = (0..3000).map(link_of).collect();
    libraries.push("fn f3000() { }".into());
    let libraries: Vec<&str> = libraries.iter().map(String::as_str).collect();
    let module = linked("import fn f0() kernel k { call f0() }", &libraries).expect("it links");
    assert_eq!(module.functions.len(), 3002);
    let whole = linked("import fn f0() kernel k { call f0() }", &libraries[..3000]);
    assert!(matches!(whole, Err(LinkError::Unbound(_))));
}

#[test]
fn lanes_meet_only_in_uniform_imports() {
    let meets = "buffer s: [u32; 1] shared read_write fn inner() { barrier } fn meet() { call inner() }";
    let votes = "fn meet() { %a = any true }";
    let calls = "import uniform fn other() fn meet() { call other() }";
    for library in [meets, votes, calls] {
        assert_eq!(
            refusal("import fn meet() kernel k { call meet() }", &[library, "fn other() { }"]),
            "lanes of a group meet in `meet()`, so it can be bound only to `import uniform fn meet`"
        );
        linked("import uniform fn meet() kernel k { call meet() }", &[library, "fn other() { }"])
            .expect("all lanes come");
    }
    // What the call passes may still be wrong for the function; then the linked module is what is refused.
    let from = "fn pick(%from: u32) -> u32 { %x = group_broadcast 1, %from return %x }";
    let module = "import uniform fn pick(%from: u32) -> u32 kernel k { %i = lane %x = call pick(%i) }";
    assert!(
        refusal(module, &[from]).starts_with("linking gives an invalid module: `from` of `group_broadcast`")
    );
}

#[test]
fn bind_leaves_what_no_library_has() {
    let module = valid("import fn a() import fn b(%x: u32) kernel k { call a() call b(1) }");
    let library = valid("import fn b(%x: u32) import uniform fn c() fn a() { call b(2) }");
    let bound = bind_imports(&module, &[library]).expect("a is bound");
    let left: Vec<&str> = bound.imports().map(|func| &*bound.functions[func].name).collect();
    assert_eq!(left, ["b"], "the library's `b` is the module's, and nobody calls `c`");
    // What one of them says is uniform is so for both.
    let module = valid("import uniform fn a() import fn c() kernel k { call a() }");
    let library = valid("import uniform fn c() fn a() { call c() }");
    let bound = bind_imports(&module, &[library]).expect("a is bound");
    let c = bound.function("c").expect("it stays");
    assert_eq!(bound.functions[c].kind, FunctionKind::Import(ImportFlow::Uniform));
    // Two that stay and differ are refused.
    let module = valid("import fn a() import fn b(%x: u32) kernel k { call a() }");
    let library = valid("import fn b() fn a() { call b() }");
    assert!(matches!(bind_imports(&module, &[library]), Err(LinkError::Signature { .. })));
}

#[test]
fn names_stay_within_their_limit() {
    let long = "h".repeat(MAX_NAME);
    let module = format!("import fn f() fn {long}() {{ }} kernel k {{ call f() call {long}() }}");
    let library = format!("fn {long}() {{ }} fn f() {{ call {long}() }}");
    let module = linked(&module, &[&library]).expect("it links");
    let name = &module.functions.iter().next().expect("the helper comes first").1.name;
    assert_eq!(name.len(), MAX_NAME);
    assert!(name.ends_with(".2"));
}

#[test]
fn nothing_loads_a_module_with_imports() {
    let module = valid("import fn spawn(%op: u32) -> u32 import uniform fn wait() kernel k { }");
    let Err(UnboundImports { imports }) = check_bound(&module) else { panic!("it has imports") };
    assert_eq!(imports.iter().map(|import| &*import.name).collect::<Vec<_>>(), ["spawn", "wait"]);
    let why = "the module has unbound imports: spawn(u32) -> u32, wait()";
    let refused = InterpKernel::new(&module, None).expect_err("the interpreter refuses it");
    assert_eq!((refused.to_string().as_str(), matches!(refused, LoadError::Unbound(_))), (why, true));
    let config = PtxConfig { target: PtxTarget::Sm90, lanes: 1 };
    let refused = ptx::emit_ptx(&module, None, &config).expect_err("it is not emitted");
    assert_eq!((refused.to_string().as_str(), matches!(refused, EmitError::Unbound(_))), (why, true));
}
