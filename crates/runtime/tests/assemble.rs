//! What `assemble` makes and what it refuses.

use pelton::kernel::{
    AssembleError, Claim, Geometry, Handler, Io, Lifetime, Region, SlotBody, Spec, Tenant, assemble,
    longest_rest,
};
use pelton::protocol::Opcode;
use pelton::{Graph, GraphError, NodeArg, Placement};
use pelton_device::{Caps, open};
use pelton_ir::emit::ptx::{PtxConfig, PtxTarget, emit_ptx};
use pelton_ir::types::{Access, Order, Scope, Type};

fn add() -> Opcode {
    Opcode::user(8).unwrap()
}

fn base() -> Spec {
    let sum = Handler::group_wide(|slot| {
        let f = slot.body();
        let part = slot.shared::<u32>("part", 1);
        f.when(f.lane().eq(0), || f.store(part.at(0), 0));
        f.barrier();
        f.atomic_add(Order::Relaxed, Scope::Group, part.at(0), slot.arg(0));
        f.barrier();
        slot.finish(f.load(part.at(0)));
    });
    Spec::new(Geometry::new(64))
        .handler_at(
            add(),
            "add",
            Handler::lane_wide(|slot| {
                let (at, by) = (slot.arg(0), slot.arg(1));
                let sum = slot.atomic_add(at, by);
                slot.finish(sum);
            }),
        )
        .handler("sum", sum)
}

/// Catches a handler whose name meets one of the kernel's own: it is refused by name, not as a kernel that is not valid.
#[test]
fn names_of_the_kernel_are_taken() {
    let caps = open("reference").unwrap().caps().clone();
    for name in ["main", "dispatch", "packed", "retire", "follow", "ready", "pick", "route", "watch", "light"]
    {
        for placement in [Placement::Near, Placement::Far, Placement::Both] {
            let handler = Handler::lane_wide(|slot| slot.finish(1));
            let spec =
                Spec::new(Geometry::new(64).lanes(64).groups(2)).placement(placement).handler(name, handler);
            let refused = assemble(&spec, &caps).map(drop).unwrap_err().to_string();
            assert!(refused.ends_with("the name is taken"), "{name}: {refused}");
        }
    }
}

#[test]
fn every_shape_is_valid() {
    for device in ["cpu", "reference"] {
        let device = open(device).unwrap();
        for lanes in [1, 8, 64] {
            for claim in [Claim::Owned, Claim::PRIORITY] {
                let spec = base().claim(claim);
                let spec = Spec { geometry: spec.geometry.clone().lanes(lanes).groups(2), ..spec };
                for spec in [
                    spec.clone().placement(Placement::Near),
                    spec.clone().placement(Placement::Far),
                    spec.clone().placement(Placement::Both),
                    spec.clone().lifetime(Lifetime::Drain),
                ] {
                    let made = assemble(&spec, device.caps()).unwrap_or_else(|e| panic!("{e}"));
                    device.load(&made.module, None, made.layout.lanes).unwrap();
                }
            }
        }
    }
}

#[test]
fn fused_has_no_switch() {
    let device = open("cpu").unwrap();
    let spec = Spec::default().body(SlotBody::Fused).handler_at(
        add(),
        "add",
        Handler::lane_wide(|slot| slot.finish(slot.arg(0))),
    );
    let made = assemble(&spec, device.caps()).unwrap();
    assert!(!made.module.to_string().contains("switch"), "{}", &*made.module);
}

#[test]
fn an_idle_kernel_rests_no_longer_than_it_says() {
    let here = open("reference").unwrap().caps().clone();
    let gpu = Caps { memory_bytes: Some(1 << 37), independent_subgroups: true, wakes: false, ..here.clone() };
    let most = longest_rest(&gpu).expect("the host cannot wake it").as_nanos() as u64;
    assert_eq!(longest_rest(&here), None);
    for placement in [Placement::Near, Placement::Far] {
        let made = assemble(&base().placement(placement), &gpu).unwrap();
        // Who looks for tasks rests for a number that is chosen, whoever keeps the control words for one that is written down.
        let rests = rests(&made.module.to_string());
        let chosen: Vec<u64> = rests.iter().filter(|rest| rest.len() > 1).flatten().copied().collect();
        assert_eq!(chosen.iter().max(), Some(&most), "{rests:?}");
        assert!(rests.iter().flatten().all(|ns| *ns <= 2 * most), "{rests:?}");
    }
}

/// For every `backoff` of a module, the numbers among which it chooses, or its own.
fn rests(text: &str) -> Vec<Vec<u64>> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let numbers = |text: &str| text.split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
    let mut rests = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(ns) = line.strip_prefix("backoff ") else { continue };
        let made = lines[..at].iter().rev().find_map(|line| line.strip_prefix(&format!("{ns} = select ")));
        rests.push(numbers(made.unwrap_or(ns)));
    }
    rests
}

/// What `assemble` says of a spec for the CPU.
fn refusal(spec: Spec) -> String {
    let device = open("cpu").unwrap();
    assemble(&spec, device.caps()).expect_err("it is refused").to_string()
}

/// A handler from text for opcode 8.
fn text(buffers: &str, body: &str) -> Spec {
    let source = format!("{buffers}\nfn it() -> u32 {{\n{body}\n}}\n");
    Spec::default().handler("it", Handler::from_text(&source))
}

#[test]
fn only_tenants_that_share_rings_make_another_kernel() {
    let caps = open("reference").unwrap().caps().clone();
    let print = |spec: &Spec| pelton_ir::text::print(&assemble(spec, &caps).unwrap().module);
    let two = |tenant: Tenant| print(&Spec::default().tenant(tenant));
    let in_turn = two(Tenant::new(1));
    assert!(!in_turn.contains("shares"), "producers come in turn");
    let by_weight = two(Tenant::new(1).weight(1));
    assert!(by_weight.contains("shares"), "a weight is stated, whatever it is");
    assert_eq!(by_weight, two(Tenant::new(1).weight(1000)), "the kernel reads the weights from memory");
    let alone = Spec::default().tenant(Tenant::new(0).weight(7));
    assert_eq!(print(&alone), print(&Spec::default()), "one tenant shares with nobody");
    let drain = |tenant: Tenant| print(&Spec::default().lifetime(Lifetime::Drain).tenant(tenant));
    assert_eq!(drain(Tenant::new(1).weight(2)), drain(Tenant::new(1)), "a batch has no rings");
}

#[test]
fn impossible_pairs_are_refused_by_name() {
    let one = |spec: Spec| spec.handler_at(add(), "add", Handler::lane_wide(|slot| slot.finish(slot.arg(0))));
    assert!(refusal(Spec::default().io(Io::Polled)).contains("io = polled"));
    assert!(refusal(Spec::default().io(Io::OnMiss)).contains("io = on_miss"));
    assert!(refusal(Spec::default().body(SlotBody::Fused)).contains("body = fused"));
    assert!(refusal(one(one(Spec::default()))).contains("another handler has the opcode"));
    let reserved =
        Spec::default().handler_at(Opcode::PRINTF, "own_printf", Handler::lane_wide(|slot| slot.finish(0)));
    assert!(refusal(reserved).contains("reserved"));
    let step = |op, name, reads: u32| {
        let handler = Handler::lane_wide(|task| task.finish(task.arg(reads - 1)));
        Spec::default().handler_at(op, name, handler)
    };
    assert!(assemble(&step(Opcode::DFA_STEP, "dfa_step", 3), open("cpu").unwrap().caps()).is_ok());
    assert!(
        refusal(step(Opcode::DFA_STEP, "dfa_step", 4)).contains("DFA_STEP has 3 arguments, but it reads 4")
    );
    assert!(refusal(step(Opcode::DFA_STEP, "nop", 3)).contains("the name is taken"));
    assert!(refusal(step(add(), "dfa_step", 3)).contains("the name is taken"));
    assert!(refusal(Spec::new(Geometry::new(100))).contains("power of two"));
    assert!(refusal(Spec::default().producers(0)).contains("no producers"));
    assert!(refusal(Spec::default().tenant(Tenant::new(29))).contains("below 29"));
    for weight in [0, 1001, u32::MAX] {
        let refused = refusal(Spec::default().tenant(Tenant::new(3).weight(weight)));
        let why = format!("its weight is {weight}, and must be at least 1 and at most 1000");
        assert!(refused.contains(&why), "{refused}");
    }
    assert!(refusal(Spec::default().share(0)).contains("is 0; it must be at least 1 and at most 100"));
    let payload = refusal(Spec::default().payload(99_999_999));
    assert_eq!(payload, "the size of a payload in bytes is 99999999; it must be at most 524288");
    assert!(refusal(Spec::default().format("{} {} {}")).contains("format 1"));
    let shared = Region { access: Access::ReadWrite, ..Region::shared("table", Type::U32, 4) };
    assert!(refusal(Spec::default().region(shared)).contains("only be read"));
    assert!(refusal(Spec::default().region(Region::new("arg", Type::U32, 4))).contains("taken"));
    let near = Spec::default().lifetime(Lifetime::Drain).placement(Placement::Near);
    assert!(refusal(near).contains("placement = near"));
}

#[test]
fn handlers_name_only_what_is_theirs() {
    let host = text("buffer data: [u32; ?] host read", "  %x = load @data[0]\n  return %x");
    assert!(refusal(host).contains("host memory"));
    let other = text("buffer secret: [u32; ?] global read", "  %x = load @secret[0]\n  return %x");
    assert!(refusal(other).contains("no region of the workspace"));
    let typed = text("buffer data: [f32; ?] global read", "  return 1");
    assert!(refusal(typed).contains("[u32; ?]"));
    let barrier = text("", "  barrier\n  return 1");
    assert!(refusal(barrier).contains("group-wide"));
    let waits = text("", "  backoff 5\n  return 1");
    assert!(refusal(waits).contains("waits"));
    let gives = Spec::default().handler("it", Handler::from_text("fn it() {\n}\n"));
    assert!(refusal(gives).contains("gives a u32"));
    let wrong = text("", "  %x = lod @data[0]\n  return %x");
    assert!(refusal(wrong).contains("error"));
    let unknown = Spec::default().handler_at(
        add(),
        "add",
        Handler::lane_wide(|slot| {
            let f = slot.body();
            slot.finish(f.load(slot.region::<u32>("nowhere").at(0)));
        }),
    );
    assert!(refusal(unknown).contains("\"nowhere\""));
    let reads = Spec::default().region(Region::shared("table", Type::U32, 4));
    let writes = reads.handler("it", Handler::from_text(
        "buffer table: [u32; ?] global read_write\nfn it() -> u32 {\n  store @table[0], 1\n  return 1\n}\n",
    ));
    assert!(refusal(writes).contains("only read"));
}

#[test]
fn regions_that_closures_name_are_looked_up_by_name() {
    let loads = |name: &'static str| {
        Handler::group_wide(move |group| group.finish(group.body().load(group.region::<u32>(name).at(0))))
    };
    let spec = || Spec::default().region(Region::shared("samples", Type::U32, 4));
    let caps = open("reference").unwrap().caps().clone();
    assemble(&spec().handler("sum", loads("samples")), &caps).unwrap();
    let misspelt = refusal(spec().handler("sum", loads("sampels")));
    assert!(misspelt.contains("handler \"sum\"") && misspelt.contains("\"sampels\""), "{misspelt}");
    assert!(misspelt.contains("did you mean \"samples\"?"), "{misspelt}");
    let writes = Handler::lane_wide(|task| task.body().store(task.region::<u32>("samples").at(0), 1));
    let written = refusal(spec().handler("write", writes));
    assert!(written.contains("\"samples\" is a region that is only read"), "{written}");
    let other = Handler::lane_wide(|task| task.body().store(task.region::<f32>("data").at(0), 1.0));
    let wrong = refusal(spec().handler("float", other));
    assert!(wrong.contains("buffer \"data\" is `[u32; ?]`"), "{wrong}");
    let both = Handler::lane_wide(|task| {
        task.store(0, 1);
        task.body().store(task.region::<f32>("data").at(0), 1.0);
    });
    let wrong = refusal(spec().handler("both", both));
    assert!(wrong.contains("region \"data\" with elements of u32 and of f32"), "{wrong}");
}

#[test]
fn a_full_table_of_opcodes_is_refused_by_name() {
    let nothing = Handler::lane_wide(|task| task.finish(0));
    let add =
        |spec: Spec, code| spec.handler_at(Opcode::from_code(code), format!("op{code}"), nothing.clone());
    let mut spec = Opcode::ASSIGNED.fold(Spec::default(), add).handler("late", nothing.clone());
    let late = spec.handlers.pop().unwrap();
    spec.handlers.insert(0, late);
    let refused = refusal(spec);
    assert!(refused.contains("handler \"late\"") && refused.contains("no free opcode"), "{refused}");
}

/// Catches graphs that are not checked, and graphs that are part of the kernel: only the room for them is.
#[test]
fn graphs_are_checked_and_only_their_size_matters() {
    let caps = open("reference").unwrap().caps().clone();
    let mut graph = Graph::new("sum", 1);
    let first = graph.node("first", "add", [NodeArg::Parameter(0)]);
    let second = graph.node("second", "sum", [first.into()]);
    let plain = assemble(&base().graph_nodes(2), &caps).unwrap();
    let with_graph = assemble(&base().graph(graph.clone()), &caps).unwrap();
    assert!(plain.module.to_string() == with_graph.module.to_string(), "the kernels differ");
    let twice = refusal(base().graph(graph.clone()).graph(graph.clone()));
    assert_eq!(twice, "two graphs are named \"sum\"");
    let drained = refusal(base().graph(graph.clone()).lifetime(Lifetime::Drain));
    assert_eq!(drained, "lifetime = drain: a drained batch cannot launch graphs");
    graph.edge(second, first);
    let cycle = refusal(base().graph(graph.clone()));
    assert_eq!(cycle, "graph \"sum\": nodes wait for each other in a cycle: first -> second -> first");
    let error = assemble(&base().graph(graph), &caps).expect_err("it is refused");
    assert!(
        matches!(&error, AssembleError::Graph { name, source: GraphError::Cycle { nodes } } if name == "sum" && nodes.len() == 2),
        "{error:?}"
    );
}

/// Catches loads of host memory that a GPU may answer from a cache, whoever runs the handler and however it reads.
#[test]
fn a_gpu_reads_host_regions_past_its_caches() {
    let here = open("reference").unwrap().caps().clone();
    let gpu = Caps { memory_bytes: Some(1 << 37), independent_subgroups: true, wakes: false, ..here };
    // A light handler, which a poller may run, and one with a loop. No other buffer is so long.
    let reads = |turns: u32| {
        Handler::lane_wide(move |task| {
            let (f, words) = (task.body(), task.region::<u32>("words"));
            let all = || {
                let wide = f.load_wide::<u32, 4>(Order::Relaxed, Scope::Group, words.at(0x7fff0));
                f.load(words.at(0x7fff4)) + f.load_byte(words.at(0x7fff5), 1u32) + wide[2]
            };
            let sum = if turns == 1 {
                all()
            } else {
                f.range((f.lit(0), task.arg(0), f.lit(1)), f.lit(0), |_, _, sum| sum + all())
            };
            f.store(words.at(0x7fff6), sum);
            task.finish(sum);
        })
    };
    for placement in [Placement::Near, Placement::Far, Placement::Both] {
        for (turns, lanes) in [(1, 32), (2, 32), (2, 64)] {
            let region = Region::new("words", Type::U32, 0x80000).in_host_memory();
            let spec = Spec::new(Geometry::new(64).lanes(lanes).groups(2)).placement(placement);
            let spec = spec.region(region).handler("reads", reads(turns));
            let made = assemble(&spec, &gpu).unwrap();
            let config = PtxConfig { target: PtxTarget::Sm90, lanes };
            let ptx = emit_ptx(&made.module, None, &config).unwrap().text;
            let accesses = |word: u32, byte: u32| -> Vec<&str> {
                let place = format!("+{}]", word * 4 + byte);
                ptx.lines().filter(|line| line.contains(&place)).map(str::trim).collect()
            };
            for (word, byte, how) in [
                (0x7fff0, 0, "ld.relaxed.sys.global.v4"),
                (0x7fff4, 0, "ld.relaxed.sys.global.u32"),
                (0x7fff5, 1, "ld.relaxed.sys.global.u8"),
                (0x7fff6, 0, "st.relaxed.sys.global.u32"),
            ] {
                let found = accesses(word, byte);
                assert!(!found.is_empty(), "{placement:?}: there is no access to word {word:#x}");
                assert!(found.iter().all(|line| line.contains(how)), "{placement:?}: {found:?} is not {how}");
            }
        }
    }
}
