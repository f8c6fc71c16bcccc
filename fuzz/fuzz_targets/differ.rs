//! Makes a module from any bytes, and checks that it behaves the same under every schedule and after every pass.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Err(broken) = pelton_gen::fuzz::differ(bytes) {
        panic!("{broken}");
    }
});
