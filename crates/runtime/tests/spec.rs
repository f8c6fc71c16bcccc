//! The text of a `Spec`: what it prints reads back, and what is wrong is said with its place.

mod graphs;

use std::time::Duration;

use graphs::acyclic_graph;
use pelton::kernel::{
    Claim, Class, Geometry, Handler, Io, Lifetime, NamedHandler, Region, RegionMemory, Report, Retention,
    SlotBody, Spec, SpecFiles, Telemetry, Tenant, Visible, Width,
};
use pelton::protocol::Opcode;
use pelton::{Graph, NodeArg, NodeId, Placement, Priority, Recovery, TaskOrder};
use pelton_ir::module::Module;
use pelton_ir::types::{Access, Type};
use proptest::prelude::*;
use proptest::sample::select;

const ADD: &str = "\
buffer arg: [u32; 12] global read
buffer data: [u32; ?] global read_write

fn add() -> u32 {
  %at = load @arg[0]
  %by = load @arg[1]
  %old = atomic_add relaxed device @data[%at], %by
  return %old
}
";

fn add() -> Opcode {
    Opcode::user(8).unwrap()
}

/// Reads it; panics with what is wrong.
fn read(text: &str) -> Spec {
    text.parse().unwrap_or_else(|e: pelton::kernel::TextError| panic!("{e}\nin\n{text}"))
}

/// What is wrong with a text.
fn wrong(text: &str) -> String {
    match text.parse::<Spec>() {
        Ok(spec) => panic!("it is fine:\n{spec}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn nothing_said_is_the_default() {
    assert_eq!(read(""), Spec::default());
    assert_eq!(read("[geometry]\nslots = 64"), Spec::new(Geometry::new(64)));
}

#[test]
fn every_key_is_heard() {
    let spec = read(&format!(
        r#"
lifetime = "drain"
placement = "far"
claim = {{ priority = {{ every = 3 }} }}
body = "fused"
io = "on_miss"
report = "control"
telemetry = "off"
share = 50
lease = "250ms"
fuel = 1_000
payload = 256
reply = 64
formats = ["sum {{}} of {{}}"]
geometry = {{ slots = 128, lanes = 32, groups = 3, window = 16 }}

[[region]]
name = "table"
type = "f32"
len = 0x100
shared = true
memory = "host"

[[tenant]]
id = 3
name = "alice"
producers = 2
allow = ["add", "ATOMIC_ADD", "printf", 9]
quota = 7
observables = 4
size = {{ table = 1, data = 4096 }}

[[handler]]
name = "add"
op = 8
width = "group"
visible = "result"
class = "idempotent"
takes_over = true
text = '''
{ADD}'''
"#
    ));
    let tenant = Tenant::new(3)
        .name("alice")
        .producers(2)
        .allow(&[add(), Opcode::ATOMIC_ADD, Opcode::PRINTF, Opcode::from_code(9)])
        .quota(7)
        .observables(4)
        .size("table", 1)
        .size("data", 4096);
    let handler = Handler::from_text(ADD)
        .width(Width::Group)
        .visible(Visible::Result)
        .class(Class::Idempotent)
        .takes_over(true);
    let mut expect = Spec::new(Geometry::new(128).lanes(32).groups(3).window(16))
        .lifetime(Lifetime::Drain)
        .placement(Placement::Far)
        .claim(Claim::Priority { every: 3 })
        .body(SlotBody::Fused)
        .io(Io::OnMiss)
        .report(Report::Control)
        .telemetry(Telemetry::Off)
        .share(50)
        .lease(Duration::from_millis(250))
        .fuel(1000)
        .payload(256)
        .reply(64)
        .format("sum {} of {}")
        .region(Region::shared("table", Type::F32, 256).in_host_memory())
        .handler_at(add(), "add", handler);
    expect.tenants = vec![tenant];
    assert_eq!(spec, expect);
    assert_eq!(read(&spec.to_string()), spec);
    assert_eq!(read("claim = \"priority\"").claim, Claim::PRIORITY);
}

#[test]
fn handlers_from_rust_have_a_text() {
    let spec = Spec::default()
        .region(Region::new("wide", Type::U64, 5).read_only())
        .handler_at(
            add(),
            "add",
            Handler::lane_wide(|slot| slot.finish(slot.atomic_add(slot.arg(0), slot.arg(1)))),
        )
        .handler(
            "sum",
            Handler::group_wide(|group| {
                group.finish(group.body().load(group.shared::<u32>("part", 4).at(0)))
            }),
        );
    assert_eq!(read(&spec.to_string()), spec);
}

#[test]
fn what_a_mistake_in_a_handler_refers_to_is_shown_in_the_file() {
    let twice = "share = 50\n\n[[handler]]\nname = \"twice\"\ntext = '''\nfn f() {\n}\n\nfn f() {\n}\n'''\n";
    let report = wrong(twice);
    assert!(report.contains("it is first defined here\n --> <spec>:6:4"), "{report}");
}

#[test]
fn mistakes_are_shown_where_they_are() {
    let bad = ADD.replace("atomic_add", "atomic_ad");
    for (text, at, what) in [
        ("lifetime = \"for_ever\"", "1:12", "there is no \"for_ever\" here; there is persistent, drain"),
        ("placement = \"nera\"", "1:13", "did you mean near?"),
        ("\nshare = \"much\"", "2:9", "this is a string; it must be a whole number"),
        ("share = 1.5", "1:9", "this is a float; it must be a whole number"),
        ("payload = 1.5", "1:11", "this is a float; it must be a whole number of bytes, at most 524288"),
        ("reply = \"8\"", "1:9", "this is a string; it must be a whole number of bytes, at most 524288"),
        ("payload = -1", "1:11", "the number must be from 0 to 4294967295"),
        ("share = -1", "1:9", "the number must be from 0 to 4294967295"),
        ("share = 4294967296", "1:9", "the number must be from 0 to 4294967295"),
        ("lease = \"10\"", "1:9", "is not a duration"),
        ("[geometry]\nslot = 4", "2:1", "there is no key `slot` here; did you mean slots?"),
        ("tennant = 1", "1:1", "there is no key `tennant` here; did you mean tenant?"),
        ("[[tenant]]\nname = \"a\"", "1:1", "`id` is missing"),
        ("tenant = 3", "1:10", "this is an integer; it must be an array"),
        ("[[tenant]]\nid = 0\nallow = [\"ATOMIC_AD\"]", "3:10", "did you mean ATOMIC_ADD?"),
        ("[[tenant]]\nid = 0\nallow = []\nmask = 1", "3:9", "`allow` or `mask`, not both"),
        ("[[tenant]]\nid = 0\nweight = \"3\"", "3:10", "this is a string; it must be a whole number"),
        ("[[tenant]]\nid = 0\nweight = -3", "3:10", "the number must be from 0"),
        (
            "[[region]]\nname = \"r\"\ntype = \"f64\"\nlen = 1",
            "3:8",
            "did you mean u64? there is u32, i32, u64, f32",
        ),
        (
            "[[region]]\nname = \"r\"\ntype = \"u32\"\nlen = 1\nmemory = \"hots\"",
            "5:10",
            "did you mean host? there is device, host",
        ),
        ("claim = { priority = {} }", "1:22", "`every` is missing"),
        ("[[handler]]\nname = \"add\"\nop = 8", "1:1", "`text` is missing"),
        ("[[handler]]\ntakes_over = 1", "2:14", "this is an integer; it must be true or false"),
        ("[[handler]]\nname = \"add\"\nop = 8\ntext = ''\nfile = 'a'", "5:8", "a text or a file, not both"),
        ("[[handler]]\nname = \"add\"\nop = 8\nfile = \"no.pel\"", "4:8", "cannot read no.pel: "),
        ("libraries = 'a.pel'", "1:13", "this is a string; it must be an array"),
        ("libraries = ['no.pel']", "1:14", "cannot read no.pel: "),
        ("libraries = [{}]", "1:14", "`text` is missing"),
        ("libraries = [{ text = 'fn f() -> u32 { }' }]", "1:40", "end it with `return`"),
        ("share = 1\nshare = 2", "2:1", "duplicate key"),
        ("share =", "1:8", "value"),
        ("share = 1 lease = \"1s\"", "1:17", "expected newline"),
    ] {
        let found = wrong(text);
        assert!(found.contains(&format!("<spec>:{at}")) && found.contains(what), "{text}\ngave\n{found}");
    }
    // In place where it stands as it is, else by itself.
    let head = "[[handler]]\nname = \"add\"\nop = 8\ntext = ";
    let found = wrong(&format!("{head}'''\n{bad}'''"));
    assert!(found.contains("<spec>:11:10") && found.contains("did you mean `atomic_add`"), "{found}");
    let found = wrong(&format!("{head}{bad:?}"));
    assert!(found.contains("add:7:10"), "{found}");
    let found = wrong(&format!("{head}'''{}'''", ADD.replace("%by = load @arg[1]", "%by = load @arg[1.0]")));
    assert!(found.contains("<spec>:9:"), "what is not valid is shown too: {found}");
}

#[test]
fn libraries_are_files_or_texts() {
    let folder = std::env::temp_dir().join(format!("pelton-libraries-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    let text = "fn one() -> u32 { return 1 }";
    std::fs::write(folder.join("one.pel"), text).expect("it can be written");
    let spec = folder.join("spec.toml");
    std::fs::write(&spec, format!("libraries = ['one.pel', {{ text = '{text}' }}]"))
        .expect("it can be written");
    let spec = Spec::from_file(&spec).expect("it is a spec");
    std::fs::remove_dir_all(&folder).expect("it can be removed");
    let module = pelton_ir::text::parse(text).expect("it parses");
    assert_eq!(spec, Spec::default().library(module.clone()).library(module));
}

#[test]
fn all_mistakes_come_at_once() {
    let found = wrong("share = true\nfuel = true\n[geometry]\nsolts = 1\n");
    for at in ["<spec>:1:9", "<spec>:2:8", "<spec>:4:1"] {
        assert!(found.contains(at), "{found}");
    }
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z][a-z0-9_]{0,8}", any::<String>()]
}

fn region() -> impl Strategy<Value = Region> {
    let elem = select(&[Type::U32, Type::I32, Type::U64, Type::F32][..]);
    let access = select(&[Access::Read, Access::Write, Access::ReadWrite][..]);
    let retention = select(&[Retention::Volatile, Retention::Kept][..]);
    let memory = select(&[RegionMemory::Device, RegionMemory::Host][..]);
    (name(), elem, any::<u32>(), access, any::<bool>(), retention, memory).prop_map(
        |(name, elem, len, access, shared, retention, memory)| Region {
            name,
            elem,
            len,
            access,
            shared,
            retention,
            memory,
        },
    )
}

fn tenant() -> impl Strategy<Value = Tenant> {
    let sizes = proptest::collection::vec((name(), any::<u32>()), 0..3);
    (any::<[u32; 5]>(), any::<Option<u32>>(), name(), sizes).prop_map(|(words, weight, name, sizes)| {
        let [id, producers, mask, quota, observables] = words;
        let tenant = Tenant { id, name, producers, mask, quota, weight, observables, sizes: Vec::new() };
        sizes.into_iter().fold(tenant, |tenant, (name, len)| tenant.size(name, len))
    })
}

fn handler() -> impl Strategy<Value = (Opcode, String, Handler)> {
    let width = select(&[Width::Lane, Width::Group][..]);
    let visible = select(&[Visible::Memory, Visible::Result][..]);
    let class = select(&[Class::Restart, Class::Once, Class::Idempotent, Class::Commuting][..]);
    let parts = (any::<u32>(), any::<u32>(), width, visible, class, any::<bool>());
    parts.prop_map(|(op, by, width, visible, class, takes_over)| {
        let handler = Handler::lane_wide(|slot| slot.finish(slot.atomic_add(slot.arg(0), by)));
        let handler = handler.width(width).visible(visible).class(class).takes_over(takes_over);
        (Opcode::from_code(op), format!("op{by}"), handler)
    })
}

/// Handlers as a `Spec` holds them.
fn named(handlers: Vec<(Opcode, String, Handler)>) -> Vec<NamedHandler> {
    let add = |spec: Spec, (op, name, handler)| spec.handler_at(op, name, handler);
    handlers.into_iter().fold(Spec::default(), add).handlers
}

fn library() -> impl Strategy<Value = Module> {
    any::<u32>().prop_map(|by| {
        let source =
            format!("import fn other() fn f(%x: u32) -> u32 {{ call other() %y = add %x, {by} return %y }}");
        pelton::ir::text::parse(&source).expect("it parses")
    })
}

/// Graphs with different names.
fn renamed(mut graphs: Vec<Graph>) -> Vec<Graph> {
    graphs.iter_mut().enumerate().for_each(|(k, graph)| graph.name = format!("g{k}"));
    graphs
}

fn spec() -> impl Strategy<Value = Spec> {
    let geometry = (any::<u32>(), any::<Option<u32>>(), any::<Option<u32>>(), any::<u32>())
        .prop_map(|(slots, lanes, groups, window)| Geometry { slots, lanes, groups, window });
    let axes = (
        select(&[Lifetime::Persistent, Lifetime::Drain][..]),
        select(&[None, Some(Placement::Near), Some(Placement::Far)][..]),
        prop_oneof![Just(Claim::Owned), any::<u32>().prop_map(|every| Claim::Priority { every })],
        select(&[SlotBody::Dispatch, SlotBody::Fused][..]),
        select(&[Io::Off, Io::Polled, Io::OnMiss][..]),
        select(&[Report::Full, Report::Control][..]),
        select(&[Telemetry::Sampled, Telemetry::Full, Telemetry::Off][..]),
        select(&[Recovery::Off, Recovery::On][..]),
        select(&[TaskOrder::Free, TaskOrder::Serial][..]),
    );
    let vec = proptest::collection::vec::<BoxedStrategy<Region>>;
    let lists = (
        vec(region().boxed(), 0..3),
        proptest::collection::vec(tenant(), 1..3),
        proptest::collection::vec(handler(), 0..3),
        proptest::collection::vec(any::<String>(), 0..3),
        proptest::collection::vec(library(), 0..3),
        proptest::collection::vec(acyclic_graph(), 0..3),
    );
    (geometry, axes, any::<(u32, Duration, u32, u32, u32)>(), lists).prop_map(
        |(
            geometry,
            axes,
            (share, lease, fuel, payload, reply),
            (regions, tenants, handlers, formats, libraries, graphs),
        )| {
            let (lifetime, placement, claim, body, io, report, telemetry, recovery, order) = axes;
            let base = Spec::new(geometry);
            let regions = base.regions.into_iter().chain(regions).collect();
            Spec {
                lifetime,
                placement,
                claim,
                body,
                io,
                report,
                telemetry,
                recovery,
                order,
                share,
                lease,
                fuel,
                payload,
                reply,
                regions,
                tenants,
                handlers: named(handlers),
                formats,
                libraries,
                graphs: if body == SlotBody::Fused { Vec::new() } else { renamed(graphs) },
                ..Spec::new(base.geometry)
            }
        },
    )
}

proptest! {
    #[test]
    fn what_it_prints_reads_back(spec in spec()) {
        let text = spec.to_string();
        prop_assert_eq!(text.parse::<Spec>().map_err(|e| TestCaseError::fail(format!("{e}\nin\n{text}")))?, spec);
    }

    #[test]
    fn no_text_is_too_odd(text in "[a-z\\[\\]={}\"'\n .0-9-]{0,60}") {
        let _ = text.parse::<Spec>().map_err(|e| e.to_string());
    }
}

/// Catches a program that does not learn of a file because another one has a mistake, and handlers that lose their opcodes
/// when the text gets another one in front of them.
#[test]
fn the_files_of_a_spec_are_read_again() {
    let folder = std::env::temp_dir().join(format!("pelton-files-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("it can be written");
    let nothing = |name: &str| format!("fn {name}() -> u32 {{ return 0 }}");
    let handler = |name: &str| format!("[[handler]]\nname = '{name}'\nfile = '{name}.pel'\n");
    write("one.pel", &nothing("one"));
    write("two.pel", &nothing("two"));
    write("library.pel", "fn f(");
    let tenant = "[[tenant]]\nid = 0\nallow = ['two']\n";
    let spec = format!("libraries = ['library.pel']\n{tenant}{}{}", handler("one"), handler("two"));
    write("spec.toml", &spec);

    let mut files = SpecFiles::new(folder.join("spec.toml"));
    let wrong = files.read(&Spec::default()).unwrap_err().to_string();
    assert!(wrong.contains("library.pel:1:"), "{wrong}");
    let all = ["spec.toml", "library.pel", "one.pel", "two.pel"].map(|name| folder.join(name));
    assert_eq!(files.paths(), all);

    write("library.pel", "");
    let first = files.read(&Spec::default()).unwrap();
    assert_eq!(first, Spec::from_file(&all[0]).unwrap());
    write("new.pel", &nothing("new"));
    write("spec.toml", &format!("{tenant}{}{}", handler("new"), handler("two")));
    let second = files.read(&first).unwrap();
    let ops = |spec: &Spec| spec.handlers.iter().map(|h| (h.name.clone(), h.op.code())).collect::<Vec<_>>();
    assert_eq!(ops(&first), [("one".into(), 8), ("two".into(), 9)]);
    assert_eq!(ops(&second), [("new".into(), 10), ("two".into(), 9)]);
    assert_eq!(second.tenants, first.tenants);
    assert_eq!(files.paths(), ["spec.toml", "new.pel", "two.pel"].map(|name| folder.join(name)));
    std::fs::remove_dir_all(&folder).expect("the folder can be removed");
}

/// Catches opcodes that depend on anything but the order of handlers.
#[test]
fn opcodes_are_assigned_in_order() {
    let nothing = || Handler::lane_wide(|task| task.finish(0));
    let nine = Opcode::user(9).unwrap();
    let spec =
        Spec::default().handler_at(nine, "nine", nothing()).handler("a", nothing()).handler("b", nothing());
    let code = |name: &str| spec.opcode(name).map(Opcode::code);
    assert_eq!((code("nine"), code("a"), code("b")), (Ok(9), Ok(8), Ok(10)));
    assert_eq!(spec.opcode("atomic_add"), Ok(Opcode::ATOMIC_ADD));
    let unknown = spec.opcode("nien").unwrap_err();
    assert_eq!(unknown.nearest.as_deref(), Some("nine"));
    assert_eq!(
        spec.opcode("something_else").unwrap_err().to_string(),
        "there is no opcode \"something_else\""
    );
}

/// Catches a text whose handlers take opcodes that later ones name, and one that does not read back.
#[test]
fn handlers_of_a_text_may_leave_their_opcode_open() {
    let handler = |name: &str, op: &str| {
        format!("[[handler]]\nname = \"{name}\"\n{op}text = \"fn {name}() -> u32 {{ return 0 }}\"\n")
    };
    let text = handler("a", "") + &handler("b", "op = 8\n") + &handler("c", "");
    let spec: Spec = read(&text);
    let ops: Vec<(&str, u32)> = spec.handlers.iter().map(|h| (h.name.as_str(), h.op.code())).collect();
    assert_eq!(ops, [("a", 9), ("b", 8), ("c", 10)]);
    assert_eq!(read(&spec.to_string()), spec);
    let wrong = handler("a", "op = \"eight\"\n").parse::<Spec>().unwrap_err().to_string();
    assert!(wrong.contains("it must be a whole number"), "{wrong}");
}

/// A text with a graph, of which one piece is replaced.
fn graph_text(old: &str, new: &str) -> String {
    let text = r#"
claim = "priority"

[[graph]]
name = "sum"
parameters = 2
result = "left"

  [[graph.node]]
  name = "left"
  op = "atomic_add"
  args = ["$0", 10]

  [[graph.node]]
  name = "right"
  op = 2
  args = ["$1", 0xff, "@left"]
  priority = "idle"

  [[graph.node]]
  name = "total"
  op = "NOP"
  args = ["@left", "@right"]
  after = ["right", "left"]
"#;
    assert_eq!(text.matches(old).count(), 1, "{old}");
    text.replace(old, new)
}

#[test]
fn graphs_are_read_and_printed() {
    let mut graph = Graph::new("sum", 2);
    let left = graph.node("left", "atomic_add", [NodeArg::Parameter(0), 10.into()]);
    let right = graph.node("right", Opcode::ATOMIC_ADD, [NodeArg::Parameter(1), 255.into(), left.into()]);
    let total = graph.node("total", "NOP", [left.into(), right.into()]);
    graph.edge(right, total);
    graph.edge(left, total);
    graph.set_result(left);
    graph.set_priority(right, Priority::Idle);
    let spec = read(&graph_text("claim", "claim"));
    assert_eq!(spec, Spec::default().claim(Claim::PRIORITY).graph(graph));
    assert_eq!(read(&spec.to_string()), spec);
    // Nodes may refer to nodes further below, and everything but names and operations may be left out.
    let small = r#"
[[graph]]
name = "small"
node = [{ name = "b", op = "nop", args = ["@a"] }, { name = "a", op = "nop" }]
"#;
    let mut graph = Graph::new("small", 0);
    graph.node("b", "nop", [NodeId::from_index(1).into()]);
    graph.node("a", "nop", []);
    assert_eq!(read(small), Spec::default().graph(graph));
}

#[test]
fn mistakes_in_graphs_are_shown_where_they_are() {
    let twice = format!(
        "{}[[graph]]\nname = \"sum\"\nnode = [{{ name = \"a\", op = 0 }}]",
        graph_text("claim", "claim")
    );
    let nodes = "[[graph.node]]\nname = \"n\"\nop = 0\n".repeat(4097);
    for (text, at, what) in [
        (graph_text("name = \"sum\"\n", ""), "4:1", "`name` is missing"),
        (graph_text("\"sum\"", "\"s u m\""), "5:8", "the name of the graph is \"s u m\", and it must have"),
        (graph_text("parameters = 2", "parameter = 2"), "6:1", "there is no key `parameter` here"),
        (graph_text("parameters = 2", "parameters = 12"), "5:8", "the graph has 12 parameters; it may have"),
        (
            graph_text("result = \"left\"", "result = \"lfet\""),
            "7:10",
            "there is no node \"lfet\" in this graph; did you mean \"left\"?",
        ),
        (graph_text("result = \"left\"", "result = 0"), "7:10", "this is an integer; it must be a string"),
        (graph_text("name = \"right\"", "name = \"left\""), "15:10", "nodes 0 and 1 are both named \"left\""),
        (graph_text("name = \"total\"\n", ""), "20:3", "`name` is missing"),
        (graph_text("op = 2\n", ""), "14:3", "`op` is missing"),
        (graph_text("op = 2", "op = 99"), "16:8", "there is no handler for opcode 0x63"),
        (graph_text("op = 2", "op = true"), "16:8", "this is a boolean; it must be a string"),
        (graph_text("\"NOP\"", "\"NPO\""), "22:8", "there is no opcode \"NPO\"; did you mean \"NOP\"?"),
        (graph_text("\"NOP\"", "\"printf\""), "22:8", "a node cannot run PRINTF: its line names the slot"),
        (
            graph_text("\"$1\"", "\"$2\""),
            "15:10",
            "node right takes parameter 2, and the graph has 2 parameters",
        ),
        (
            graph_text("\"$1\"", "\"$x\""),
            "17:11",
            "\"$x\" is not an argument; write a number, \"$0\" for parameter 0",
        ),
        (graph_text("\"$1\"", "\"$\""), "17:11", "\"$\" is not an argument"),
        (graph_text("\"$1\"", "\"$+1\""), "17:11", "\"$+1\" is not an argument"),
        (graph_text("\"$1\"", "\"left\""), "17:11", "\"left\" is not an argument"),
        (graph_text("\"$1\"", "-1"), "17:11", "the number must be from 0 to 4294967295"),
        (
            graph_text("\"@right\"", "\"@rigth\""),
            "23:20",
            "there is no node \"rigth\" in this graph; did you mean \"right\"?",
        ),
        (
            graph_text("[\"right\", \"left\"]", "[\"nowhere\"]"),
            "24:12",
            "there is no node \"nowhere\" in this graph",
        ),
        (graph_text("[\"right\", \"left\"]", "\"right\""), "24:11", "this is a string; it must be an array"),
        (graph_text("[\"right\", \"left\"]", "[\"total\"]"), "21:10", "node total waits for itself"),
        (graph_text("\"idle\"", "\"hihg\""), "18:14", "did you mean high?"),
        (graph_text("[\"$0\", 10]", "[\"@total\"]"), "10:10", "in a cycle: left -> "),
        (graph_text("[\"$0\", 10]", "[0,0,0,0,0,0,0,0,0,0,0,0,0]"), "10:10", "node left has 13 arguments"),
        ("[[graph]]\nname = \"empty\"".into(), "2:8", "the graph has no nodes"),
        (
            format!("[[graph]]\nname = \"large\"\n{nodes}"),
            "1:1",
            "the graph has 4097 nodes; it may have at most 4096",
        ),
        (twice, "26:8", "two graphs are named \"sum\""),
    ] {
        let found = wrong(&text);
        assert!(
            found.contains(&format!("<spec>:{at}\n")) && found.contains(what),
            "{at} {what}\nis not\n{found}"
        );
    }
    // What is wrong with a graph is said once, and all of it at once.
    let found = wrong(&graph_text("\"NOP\"", "\"NPO\""));
    assert_eq!(found.matches("error[spec]").count(), 1, "{found}");
    let both = graph_text("\"idle\"", "\"hihg\"").replace("\"@right\"", "\"@rigth\"");
    let found = wrong(&both);
    assert!(found.contains("<spec>:18:14") && found.contains("<spec>:23:20"), "{found}");
}
