//! Streams that are stopped, that wait, and that are left by a panic.

use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use pelton::stream::{Input, StreamError};

use crate::*;

pub(crate) const TESTS: &[Test] = named![
    a_stop_hands_over_what_was_read,
    a_stop_does_not_wait_for_a_silent_pipe,
    nothing_is_read_that_there_is_no_room_for,
    a_callback_that_panics_ends_the_stream,
    a_reader_that_panics_is_not_the_end_of_the_input,
];

/// Catches a stop that loses chunks, or does not stop.
fn a_stop_hands_over_what_was_read() {
    let folder = Folder::new("stop");
    let bytes = noise(1, 4 << 20);
    let path = folder.write("bytes", &bytes);
    let session = on_cpu(4 << 12);
    for engine in ENGINES.iter().copied() {
        for input in [Input::files([&path]), Input::reader("endless", io::repeat(7))] {
            let (stop, mut seen, mut total) = (Arc::new(AtomicBool::new(false)), 0u64, 0u64);
            let stream = session.stream(0, input).chunk(4096).engine(engine).stop_flag(stop.clone());
            let report = stream
                .op("sum")
                .run(|chunk, result| {
                    assert_eq!(chunk.offset(), seen, "nothing is left out");
                    seen += chunk.len() as u64;
                    total += u64::from(result.unwrap());
                    if seen == 20 * 4096 {
                        stop.store(true, Ordering::Relaxed);
                    }
                })
                .unwrap();
            assert!(report.stopped);
            assert_eq!(report.bytes, seen);
            // What was read when it was stopped: a few chunks of a file, or up to two reads of 256 KiB.
            let (endless, least) = (total == 7 * seen, 20 * 4096);
            let most = least + if endless { 2 << 18 } else { 20 * 4096 };
            assert!((least..=most).contains(&seen), "{engine:?}: {seen} bytes");
            assert!(endless || total == byte_sum(&bytes[..seen as usize]));
        }
    }
}

/// Catches a stream that cannot be stopped while nothing comes.
fn a_stop_does_not_wait_for_a_silent_pipe() {
    struct Silent(std::sync::mpsc::Receiver<()>);
    impl Read for Silent {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            Ok(0)
        }
    }
    let session = on_cpu(4 << 12);
    let (keep, silence) = channel();
    let stop = Arc::new(AtomicBool::new(false));
    std::thread::scope(|threads| {
        let flag = stop.clone();
        threads.spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            flag.store(true, Ordering::Relaxed);
        });
        let stream =
            session.stream(0, Input::reader("silent", Silent(silence))).chunk(4096).stop_flag(stop.clone());
        let report = stream.op("sum").run(|_, _| unreachable!("there are no bytes")).unwrap();
        assert!(report.stopped && report.bytes == 0);
    });
    drop(keep);
}

/// Catches a stream that reads on although nobody takes its results.
fn nothing_is_read_that_there_is_no_room_for() {
    struct Counted(Arc<AtomicU64>);
    impl Read for Counted {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            self.0.fetch_add(to.len() as u64, Ordering::Relaxed);
            Ok(to.len())
        }
    }
    let session = on_cpu(4 << 12);
    let (read, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let input = Input::reader("counted", Counted(read.clone()));
    let mut seen = 0u64;
    let stream = session.stream(0, input).chunk(4096).stop_flag(stop.clone());
    stream
        .op("sum")
        .run(|chunk, _| {
            // Whoever reads has all the time that it could want.
            std::thread::sleep(Duration::from_millis(2));
            seen += chunk.len() as u64;
            // Four chunks, and a few reads ahead of 256 KiB each.
            let ahead = read.load(Ordering::Relaxed) - seen;
            assert!(ahead <= (4 << 12) + (8 << 18), "{ahead} bytes were read ahead");
            stop.store(seen > 400_000, Ordering::Relaxed);
        })
        .unwrap();
}

/// Catches readers that go on after the callback has panicked, and chunks that are never free again.
fn a_callback_that_panics_ends_the_stream() {
    let folder = Folder::new("panic");
    let path = folder.write("bytes", &noise(1, 1 << 20));
    let session = on_cpu(4 << 12);
    for engine in ENGINES.iter().copied() {
        for input in [Input::files([&path]), Input::reader("endless", io::repeat(7))] {
            let mut chunks = 0;
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                session.stream(0, input).chunk(4096).engine(engine).op("sum").run(|_, _| {
                    chunks += 1;
                    assert!(chunks < 10, "on purpose");
                })
            }));
            assert!(panicked.is_err() && chunks == 10);
            let again =
                session.stream(0, Input::files([&path])).chunk(4096).engine(engine).op("sum").run(|_, _| {});
            assert_eq!(again.unwrap().bytes, 1 << 20);
        }
    }
}

/// Reads some bytes, and then panics.
struct Panicking(u32);

impl Read for Panicking {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        assert!(self.0 > 0, "on purpose");
        self.0 -= 1;
        into.fill(1);
        Ok(into.len())
    }
}

/// Catches an input that seems to be complete although its reader has panicked, and chunks without bytes.
fn a_reader_that_panics_is_not_the_end_of_the_input() {
    let session = on_cpu(4 << 12);
    let broken =
        session.stream(0, Input::reader("broken", Panicking(2))).chunk(4096).op("sum").run(|_, _| {});
    assert!(matches!(broken, Err(StreamError::Panicked)), "{broken:?}");
    let whole = session.stream(0, Input::reader("whole", io::repeat(1).take(9000))).chunk(4096).op("sum");
    assert_eq!(whole.run(|_, _| {}).unwrap().bytes, 9000);
    let empty = session.stream(0, Input::reader("whole", io::empty())).chunk(0).op("sum").run(|_, _| {});
    assert!(matches!(empty, Err(StreamError::EmptyChunks)), "{empty:?}");
}
