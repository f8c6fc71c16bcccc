//! What emitters refuse, and what they tell of a launch.

use pelton_ir::emit::EmitError;
use pelton_ir::emit::ptx::{MAX_LANES, MAX_PARAMS, PtxConfig, PtxTarget, emit_ptx};
use pelton_ir::module::NoKernel;
use pelton_ir::op::Op;
use pelton_ir::text;
use pelton_ir::valid::{Valid, validate};

fn module(source: &str) -> Valid {
    validate(text::parse(source).expect("it parses")).expect("it is valid")
}

const CONFIG: PtxConfig = PtxConfig { target: PtxTarget::Sm90, lanes: 32 };

#[test]
fn a_kernel_must_be_known() {
    let two = module("kernel a {\n}\n\nkernel b {\n}\n\nfn c() {\n}\n");
    let have = vec!["a".into(), "b".into()];
    assert_eq!(emit_ptx(&two, None, &CONFIG), Err(EmitError::Kernel(NoKernel::Unnamed { have })));
    assert_eq!(
        emit_ptx(&two, Some("c"), &CONFIG),
        Err(EmitError::Kernel(NoKernel::Function { name: "c".into() }))
    );
    assert_eq!(emit_ptx(&two, Some("b"), &CONFIG).map(|ptx| ptx.entry), Ok("pelton_b".into()));
    assert_eq!(
        emit_ptx(&module(""), None, &CONFIG),
        Err(EmitError::Kernel(NoKernel::Unnamed { have: vec![] }))
    );
}

#[test]
fn asynchronous_copies_are_refused_by_name() {
    let copies = module(
        "buffer a: [u32; 8] shared read_write\nbuffer b: [u32; 8] global read\n\nfn f() {\n  async_load @a[0], \
         @b[0], 4, 0\n}\n\nkernel main {\n  call f()\n  async_wait 0\n}\n",
    );
    let refused = emit_ptx(&copies, None, &CONFIG).expect_err("it cannot be emitted");
    assert_eq!(refused.to_string(), "`async_load` cannot be emitted");
    // The place is that of the module that was given, where the copy stands in the function.
    let EmitError::Op { op, site } = refused else { panic!("{refused}") };
    assert_eq!((op, copies.functions[site.func].name.as_str()), (Op::AsyncLoad, "f"));
}

#[test]
fn geometry_and_buffers_are_bounded() {
    let empty = module("kernel main {\n}\n");
    for lanes in [0, MAX_LANES + 1, u32::MAX] {
        let config = PtxConfig { lanes, ..CONFIG };
        assert_eq!(emit_ptx(&empty, None, &config), Err(EmitError::Lanes { lanes, most: MAX_LANES }));
    }
    assert!(emit_ptx(&empty, None, &PtxConfig { lanes: MAX_LANES, ..CONFIG }).is_ok());
    let buffers = |count: usize| {
        let declare = |k| format!("buffer b{k}: [u32; 1] global read\n");
        module(&((0..count).map(declare).collect::<String>() + "\nkernel main {\n}\n"))
    };
    assert_eq!(
        emit_ptx(&buffers(MAX_PARAMS), None, &CONFIG).map(|ptx| ptx.launch_bytes()),
        Ok(8 * (4 + 2 * MAX_PARAMS))
    );
    let many = MAX_PARAMS + 1;
    assert_eq!(
        emit_ptx(&buffers(many), None, &CONFIG),
        Err(EmitError::Buffers { count: many, most: MAX_PARAMS })
    );
}

#[test]
fn a_launch_is_told_where_buffers_go() {
    let source = "buffer a: [u32; ?] global read\nbuffer s: [u32; 100] shared read_write\nbuffer b: [u32; 1] host \
                  write\n\nkernel main {\n  store @s[3], 1\n  %x = load @a[0]\n  store @b[0], %x\n}\n";
    let with = module(source);
    let ptx = emit_ptx(&with, None, &CONFIG).expect("it can be emitted");
    let params: Vec<(&str, u32)> =
        ptx.params.iter().map(|param| (with.buffers[param.buffer].name.as_str(), param.word)).collect();
    assert_eq!(params, [("a", 4), ("b", 6)]);
    assert_eq!((ptx.launch_bytes(), ptx.shared, ptx.dynamic), (64, 400, 0));
    let large = emit_ptx(&module(&source.replace("100", "30000")), None, &CONFIG).expect("it can be emitted");
    assert_eq!((large.shared, large.dynamic), (120_000, 120_000));
}

#[test]
fn faults_lead_back_to_the_module() {
    let source = "fn f(%x: u32) {\n  %y = add %x, 0\n  fault %y\n}\n\nkernel main {\n  %i = lane\n  call f(%i)\n  \
                  %j = add %i, 1\n  call f(%j)\n  trap 3\n}\n";
    let with = module(source);
    let ptx = emit_ptx(&with, None, &CONFIG).expect("it can be emitted");
    let recorded: Vec<(String, Op)> = ptx
        .sites
        .iter()
        .map(|site| (site, &with.functions[site.func]))
        .map(|(site, function)| (function.name.clone(), function.inst(site.inst).op))
        .filter(|(_, op)| matches!(op, Op::Fault | Op::Trap))
        .collect();
    let name = |name: &str| name.to_string();
    assert_eq!(recorded, [(name("f"), Op::Fault), (name("f"), Op::Fault), (name("main"), Op::Trap)]);
    // The site that the text records is an index into that list.
    for (at, site) in ptx.sites.iter().enumerate() {
        if with.functions[site.func].inst(site.inst).op == Op::Trap {
            assert!(ptx.text.contains(&format!("+8], {at};")), "{}", ptx.text);
        }
    }
}

/// Catches a kernel whose groups may wait for each other and which is launched with more groups than are resident.
#[test]
fn a_kernel_may_wait_if_what_it_calls_may() {
    let source = "
buffer data: [u32; 1] global read_write
fn counted() {
  loop %i = 0 to 4 step 1 {
    store @data[0], %i
  }
}
fn waiting() {
  forever ^l {
    %x = atomic_load acquire device @data[0]
    %set = ne %x, 0
    if %set {
      break ^l
    }
  }
}
fn between() {
  call waiting()
}
kernel ends {
  call counted()
}
kernel stays {
  call counted()
  call between()
}
";
    let module = module(source);
    let may_wait = |name| emit_ptx(&module, Some(name), &CONFIG).expect("it is emitted").may_wait;
    assert_eq!(["ends", "stays"].map(may_wait), [false, true]);
}
