//! What goes wrong: files that vanish, shrink or cannot be read, tasks that fail, devices that are lost.

use std::io::{self, Read};
use std::time::Duration;

use pelton::device::losable::Losable;
use pelton::stream::{Input, StreamError};
use pelton::{Recovery, TaskError, Tenant};

use crate::*;

pub(crate) const TESTS: &[Test] = named![
    what_cannot_be_opened_is_named,
    a_file_that_shrinks_is_an_error_that_says_where,
    a_file_that_is_read_in_lines_has_the_size_that_it_had,
    a_reader_that_fails_says_where,
    tasks_that_fail_do_not_end_the_stream,
    streams_that_cannot_be_are_refused,
    a_stream_goes_on_after_losses,
    a_stream_ends_with_its_session,
    tenants_stream_beside_each_other,
    nothing_leaks,
];

/// Catches errors without a name, and chunks before the error that are not handed over.
fn what_cannot_be_opened_is_named() {
    let folder = Folder::new("absent");
    let good = folder.write("good", &noise(1, 20_000));
    let session = on_cpu(1 << 14);
    for engine in ENGINES.iter().copied() {
        for (bad, what) in
            [(folder.path().join("absent"), "No such file"), (folder.path().into(), "irectory")]
        {
            let mut bytes = 0;
            let input = Input::files([&good, &bad, &good]);
            let error = session
                .stream(0, input)
                .chunk(4096)
                .engine(engine)
                .readers(3)
                .op("sum")
                .run(|chunk, _| bytes += chunk.len())
                .unwrap_err();
            let text = error.to_string();
            assert!(
                matches!(&error, StreamError::Open { name, .. } if *name == bad.display().to_string()),
                "{text}"
            );
            assert!(text.contains(what), "{text}");
            assert_eq!(bytes, 20_000, "{engine:?}: what comes before is handed over, and nothing after it");
        }
    }
    let error =
        session.stream(0, Input::folder(folder.path().join("absent"))).op("sum").chunk(64).run(|_, _| {});
    assert!(matches!(error, Err(StreamError::Open { .. })), "{error:?}");
}

/// Catches a file that becomes shorter and whose missing bytes are taken for zeros, or for the end.
fn a_file_that_shrinks_is_an_error_that_says_where() {
    let folder = Folder::new("shrinks");
    let session = on_cpu(2 << 12);
    for engine in ENGINES.iter().copied() {
        let path = folder.write("shrinks", &noise(1, 1 << 20));
        let mut bytes = 0;
        let error = session
            .stream(0, Input::files([&path]))
            .chunk(4096)
            .engine(engine)
            .op("sum")
            .run(|chunk, _| {
                bytes += chunk.len() as u64;
                // Only a few chunks can have been read by now.
                std::fs::OpenOptions::new()
                    .write(true)
                    .open(&path)
                    .unwrap()
                    .set_len((1 << 19) + 100)
                    .unwrap();
            })
            .unwrap_err();
        let (cut, whole) = ((1 << 19) + 100, 1 << 20);
        assert!(
            matches!(&error, StreamError::Shrunk { offset, size, .. } if (*offset, *size) == (cut, whole)),
            "{engine:?}: {error}"
        );
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
        assert_eq!(bytes, 1 << 19, "{engine:?}: whole chunks before it are handed over");
        // Nothing of the stream is left behind.
        let again =
            session.stream(0, Input::files([&path])).chunk(4096).engine(engine).op("sum").run(|_, _| {});
        assert_eq!(again.unwrap().bytes, cut);
    }
}

/// Gives bytes, and then an error.
struct Fails(usize);

impl Read for Fails {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let len = to.len().min(self.0).min(999);
        self.0 -= len;
        to[..len].fill(1);
        if len == 0 { Err(io::Error::other("the cable was cut")) } else { Ok(len) }
    }
}

/// Catches a file whose chunks end after lines and that may shrink or grow unnoticed.
fn a_file_that_is_read_in_lines_has_the_size_that_it_had() {
    let folder = Folder::new("lines");
    let session = on_cpu(2 << 12);
    let size = 4 << 20;
    for (becomes, wanted) in [(size / 2, None), (size + 1000, Some(size))] {
        let path = folder.write("lines", &b"0123456\n".repeat(size as usize / 8));
        let change =
            || std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(becomes).unwrap();
        let stream = session.stream(0, Input::files([&path])).chunk(4096).delimiter(b'\n').op("sum");
        // Only a part of the file can have been read when its first chunk is handed over.
        let ended = stream.run(|_, _| change());
        match wanted {
            Some(bytes) => assert_eq!(ended.unwrap().bytes, bytes),
            None => {
                let error = ended.unwrap_err().to_string();
                assert!(error.contains("although it had 4194304 bytes"), "{error}");
            }
        }
    }
}

/// Catches a source whose error is taken for its end, and bytes before the error that are lost.
fn a_reader_that_fails_says_where() {
    let session = on_cpu(1 << 14);
    let mut sum = 0;
    let input = Input::reader("a cable", Fails(10_001)).and(Input::reader("never", &b"x"[..]));
    let error =
        session.stream(0, input).chunk(4096).op("sum").run(|_, result| sum += result.unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "cannot read a cable at byte 10001: the cable was cut");
    assert_eq!(sum, 10_001);
    if cfg!(target_os = "linux") {
        let input = Input::files(["/proc/self/mem"]);
        let error = session.stream(0, input).chunk(4096).op("sum").run(|_, _| {}).unwrap_err();
        assert!(error.to_string().starts_with("cannot read /proc/self/mem at byte 0: "), "{error}");
    }
}

/// Catches a fault that ends the stream, or is not handed over.
fn tasks_that_fail_do_not_end_the_stream() {
    let folder = Folder::new("faults");
    let path = folder.write("ten", &noise(1, 10 * 4096));
    let session = on_cpu(1 << 14);
    let mut faults = 0;
    let stream = session.stream(0, Input::files([path])).chunk(4096).op("argument").args(&[12]);
    let report =
        stream.run(|_, result| faults += u64::from(matches!(result, Err(TaskError::Fault(_))))).unwrap();
    assert_eq!((faults, report.faults, report.chunks), (10, 10, 10));
}

/// Catches streams that begin although they cannot work.
fn streams_that_cannot_be_are_refused() {
    let spec = spec(1 << 14).region(Region::new("device", Type::U32, 4096));
    let session = Session::launch(&open("cpu").unwrap(), &spec).unwrap();
    let input = || Input::reader("x", &b"x"[..]);
    let refused = |stream: pelton::stream::Stream<'_>| stream.run(|_, _| {}).unwrap_err().to_string();
    let stream = || session.stream(0, input()).chunk(64).op("sum");
    assert!(refused(session.stream(0, input())).contains("needs 1048576"));
    assert!(refused(stream().chunk(0)).contains("at least one byte"));
    assert!(refused(stream().overlap(usize::MAX)).contains("has 16384 bytes"));
    assert!(refused(stream().region("device")).contains("does not lie in host memory"));
    assert!(refused(stream().region("nowhere")).contains("there is no region \"nowhere\""));
    assert!(refused(stream().op("sun")).contains("did you mean"));
    assert!(refused(session.stream(0, input()).chunk(64)).contains("name the operation"));
    assert!(
        refused(stream().args(&[0; 7])).contains("7 arguments were given, but a stream can have at most 6")
    );
    assert!(refused(session.stream(5, input()).chunk(64).op("sum")).contains("no tenant 5"));
    // The only producer is taken.
    let producer = session.producer(0).unwrap();
    assert!(refused(stream()).contains("all 1 producers of tenant 0 are in use"));
    drop(producer);
    // Another stream over the same chunks would overwrite them.
    let spec = crate::spec(1 << 14).producers(2);
    let session = Session::launch(&open("cpu").unwrap(), &spec).unwrap();
    let mut inner = None;
    let outer = session.stream(0, input()).chunk(64).op("sum").run(|_, _| {
        inner = Some(session.stream(0, input()).chunk(64).op("sum").run(|_, _| {}));
    });
    assert!(matches!(inner, Some(Err(StreamError::Busy))), "{inner:?}");
    assert!(outer.is_ok() && session.stream(0, input()).chunk(64).op("sum").run(|_, _| {}).is_ok());
}

/// Catches chunks that are lost with the device, or whose tasks run on other bytes after a loss.
fn a_stream_goes_on_after_losses() {
    let folder = Folder::new("losses");
    let bytes = noise(1, 4 << 20);
    let path = folder.write("bytes", &bytes);
    for engine in ENGINES.iter().copied() {
        for order in ORDERS {
            let device = Arc::new(Losable::new(open("cpu").unwrap()));
            let on: Arc<dyn Device> = device.clone();
            let session = Session::launch(&on, &spec(8 << 14).recovery(Recovery::On)).unwrap();
            let (mut total, mut chunks) = (0, 0);
            let stream = session.stream(0, Input::files([&path])).chunk(1 << 14).engine(engine).order(order);
            let report = stream
                .op("sum")
                .run(|_, result| {
                    total += u64::from(result.unwrap());
                    chunks += 1;
                    if chunks % 40 == 0 {
                        device.lose();
                    }
                })
                .unwrap();
            assert_eq!((total, report.bytes), (byte_sum(&bytes), 4 << 20), "{engine:?}, {order:?}");
            let recovered = session.snapshot().unwrap().recovery.unwrap().count;
            assert!(recovered >= 4, "{recovered} recoveries");
        }
    }
}

/// Catches a stream that waits for ever for a session that has ended.
fn a_stream_ends_with_its_session() {
    let folder = Folder::new("ends");
    let path = folder.write("bytes", &noise(1, 1 << 20));
    for engine in ENGINES.iter().copied() {
        let device = Arc::new(Losable::new(open("cpu").unwrap()));
        let on: Arc<dyn Device> = device.clone();
        let session = Session::launch(&on, &spec(4 << 12)).unwrap();
        let (mut chunks, mut lost) = (0, 0);
        let ended =
            session.stream(0, Input::files([&path])).chunk(4096).engine(engine).op("sum").run(|_, result| {
                chunks += 1;
                lost += u32::from(result.is_err());
                if chunks == 10 {
                    device.lose();
                }
            });
        assert!(matches!(ended, Err(StreamError::Submit { .. })), "{ended:?}");
        assert!(chunks >= 10 && lost <= 5, "{chunks} chunks, {lost} lost");
    }
}

/// Catches chunks of one tenant that a task of another reads.
fn tenants_stream_beside_each_other() {
    let spec = spec(1 << 14).tenant(Tenant::new(0)).tenant(Tenant::new(1).size("stream", 1 << 13));
    let session = Session::launch(&open("cpu").unwrap(), &spec).unwrap();
    std::thread::scope(|threads| {
        for tenant in 0..2 {
            let session = &session;
            threads.spawn(move || {
                for round in 0..20 {
                    let bytes = noise(tenant * 100 + round, 50_000);
                    let (expected, mut total) = (byte_sum(&bytes), 0);
                    let input = Input::reader("bytes", io::Cursor::new(bytes));
                    let stream = session.stream(tenant, input).chunk(4096).op("sum");
                    stream.run(|_, result| total += u64::from(result.unwrap())).unwrap();
                    assert_eq!(total, expected);
                }
            });
        }
    });
}

/// How many files are open, and how many mappings there are.
fn resources() -> (usize, usize) {
    let files = std::fs::read_dir("/proc/self/fd").unwrap().count();
    (files, std::fs::read_to_string("/proc/self/maps").unwrap().lines().count())
}

/// Catches files, rings and threads that are left when streams end, well or not. Other tests run at the same time, so this
/// counts in a process of its own.
fn nothing_leaks() {
    if !cfg!(target_os = "linux") {
        return;
    }
    if std::env::var_os("PELTON_STREAM_LEAKS").is_none() {
        let program = std::env::current_exe().unwrap();
        let mut alone = std::process::Command::new(program);
        alone.args(["--exact", "faults::nothing_leaks"]).env("PELTON_STREAM_LEAKS", "1");
        let ran = alone.output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
        return;
    }
    let folder = Folder::new("leaks");
    let good = folder.write("good", &noise(1, 30_000));
    let session = on_cpu(1 << 14);
    let round = || {
        for engine in ENGINES.iter().copied() {
            for input in [
                Input::files([&good, &good]),
                Input::files([good.clone(), folder.path().join("absent"), good.clone()]),
                Input::reader("fails", Fails(5_000)).and(Input::files([&good])),
            ] {
                let _ =
                    session.stream(0, input).chunk(4096).engine(engine).readers(3).op("sum").run(|_, _| {});
            }
        }
    };
    (0..5).for_each(|_| round());
    let before = resources();
    (0..50).for_each(|_| round());
    // The threads that read readers end a moment after their streams.
    let end = std::time::Instant::now() + Duration::from_secs(20);
    while resources().0 > before.0 || resources().1 > before.1 + 16 {
        assert!(std::time::Instant::now() < end, "before: {before:?}, after: {:?}", resources());
        std::thread::sleep(Duration::from_millis(10));
    }
}
