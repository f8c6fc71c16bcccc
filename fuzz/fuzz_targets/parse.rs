//! Parses any bytes: the result is an error or a module that prints and parses back, never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Err(broken) = pelton_gen::fuzz::parse(bytes) {
        panic!("{broken}");
    }
});
