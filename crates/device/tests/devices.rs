//! What is particular to the CPU, and what is wrong with launches.

mod common;

use std::sync::Arc;

use pelton_device::{DeviceError, Launch, MemoryKind, WordWidth, open};

use common::{ECHO, SUM, launch, memory, module, words};

#[test]
fn more_groups_than_threads_all_run() {
    let source = "
buffer data: [u32; ?] global read_write
kernel main {
  %group = group
  %old = atomic_add relaxed device @data[%group], 1
}
";
    let device = open("cpu:2").unwrap();
    let module = module(source);
    let kernel = device.load(&module, None, 3).unwrap();
    let buffers = memory(&device, &module, 5000);
    kernel.launch(&launch(5000, &buffers)).unwrap().wait(None).unwrap();
    assert!(words(&buffers[0]).iter().all(|x| *x == 3));
}

#[test]
fn what_is_wrong_with_a_launch_is_said() {
    let device = open("cpu").unwrap();
    let module = module(ECHO);
    let kernel = device.load(&module, None, 1).unwrap();
    let text = |launch: Launch| kernel.launch(&launch).unwrap_err().to_string();
    assert!(text(Launch::new(1)).contains("\"ask\" has no memory"));
    assert!(text(Launch::new(0)).contains("groups"));
    let wide = device.alloc(MemoryKind::Host, WordWidth::W64, 1).unwrap();
    let long = device.alloc(MemoryKind::Host, WordWidth::W32, 2).unwrap();
    let [ask, _] = [0, 1].map(pelton_ir::arena::Handle::new);
    assert!(text(Launch::new(1).bind(ask, wide)).contains("other words"));
    assert!(text(Launch::new(1).bind(ask, long)).contains("has 1 elements"));
    assert!(device.load(&module, Some("ecco"), 1).unwrap_err().to_string().contains("it has echo"));
    assert!(device.load(&module, None, 0).is_err());
    assert!(open("cpu:0").is_err());
    assert!(open("abacus").unwrap_err().to_string().contains("reference"));
}

#[test]
fn near_memory_takes_lines() {
    let device = open("cpu").unwrap();
    let near = device.alloc(MemoryKind::Near, WordWidth::W64, 16).unwrap();
    near.put(8, &[[1, 2, 3, 4, 5, 6, 7, 8]]).unwrap();
    near.flush();
    let mut words = [0u64; 16];
    near.download(0, &mut words).unwrap();
    assert_eq!(words, [0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert!(near.put(9, &[[0; 8]]).is_err());
    let host = device.alloc(MemoryKind::Host, WordWidth::W64, 16).unwrap();
    assert!(host.put(0, &[[0; 8]]).is_err());
    assert!(host.upload(0, &[1u32]).is_err());
}

#[test]
fn the_memory_of_a_group_is_checked_at_load() {
    let mut source = String::from("buffer data: [u64; ?] global read_write\nkernel main {\n  %lane = lane\n");
    for k in 0..9000 {
        source += &format!("  %i{k} = add %lane, {k}\n  %x{k} = atomic_load relaxed device @data[%i{k}]\n");
    }
    source += "  barrier\n";
    for k in 0..9000 {
        source += &format!("  store @data[%i{k}], %x{k}\n");
    }
    source += "}\n";
    let device = open("cpu").unwrap();
    let module = module(&source);
    assert!(device.load(&module, None, 2).is_ok());
    let error = device.load(&module, None, 1024).unwrap_err();
    assert!(
        matches!(&error, DeviceError::Limit { what, .. } if what == "the memory a group needs"),
        "{error}"
    );
}

#[test]
fn a_kernel_is_compiled_once() {
    let device = open("cpu").unwrap();
    let (a, b) = (module(SUM), module(ECHO));
    let code = |kernel: &Arc<dyn pelton_device::Kernel>| format!("{kernel:?}");
    let first = device.load(&a, None, 4).unwrap();
    assert_eq!(code(&first), code(&device.load(&module(SUM), None, 4).unwrap()));
    // Another number of lanes and another module are other code, whatever was compiled before.
    assert_ne!(code(&first), code(&device.load(&a, None, 33).unwrap()));
    assert_ne!(code(&first), code(&device.load(&b, None, 4).unwrap()));
}
