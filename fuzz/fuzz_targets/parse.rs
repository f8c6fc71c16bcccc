//! Any bytes: an error or a module, never a panic; and a module reads back.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Err(broken) = pelton_gen::fuzz::parse(bytes) {
        panic!("{broken}");
    }
});
