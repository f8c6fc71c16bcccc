//! Pipes, sockets and everything else that is read as it comes.

use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::channel;
use std::time::Duration;

use pelton::stream::Input;

use crate::*;

pub(crate) const TESTS: &[Test] = named![
    readers_are_cut_into_chunks,
    files_and_readers_come_in_order,
    chunks_end_after_delimiters,
    bytes_do_not_wait_for_a_full_chunk,
    sockets_are_read_until_they_are_closed,
    named_pipes_are_read_as_they_come,
    files_of_the_system_are_read_although_they_seem_empty,
];

/// Gives bytes in portions of odd sizes.
struct Portions {
    bytes: Vec<u8>,
    at: usize,
    turn: usize,
}

impl Portions {
    fn new(bytes: Vec<u8>) -> Self {
        Portions { bytes, at: 0, turn: 0 }
    }
}

impl Read for Portions {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.turn += 1;
        if self.turn.is_multiple_of(5) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let len = to.len().min(self.turn * 37 % 5000 + 1).min(self.bytes.len() - self.at);
        to[..len].copy_from_slice(&self.bytes[self.at..self.at + len]);
        self.at += len;
        Ok(len)
    }
}

/// Catches bytes that are lost or repeated where portions and chunks do not meet.
fn readers_are_cut_into_chunks() {
    for device in devices() {
        let session = launch(&device, 5 << 12);
        for (len, overlap) in [(0, 0), (1, 0), (100_000, 0), (100_000, 50), (1 << 16, 0), (70_000, 4096)] {
            let (bytes, mut seen, mut total) = (noise(3, len), Vec::new(), 0);
            let input = Input::reader("portions", Portions::new(bytes.clone()));
            let chunk_bytes = 4096.min((5 << 12) - overlap);
            let stream = session.stream(0, input).chunk(chunk_bytes).overlap(overlap).op("sum");
            let report = stream
                .run(|chunk, result| {
                    let all = chunk.bytes();
                    let from = seen.len() - chunk.overlap();
                    assert_eq!((chunk.offset(), chunk.name()), (from as u64, "portions"));
                    assert_eq!(all[..chunk.overlap()], seen[from..]);
                    assert_eq!(chunk.overlap(), overlap.min(seen.len()));
                    seen.extend(&all[chunk.overlap()..]);
                    total += u64::from(result.unwrap());
                })
                .unwrap();
            assert!(seen == bytes, "{len} bytes with an overlap of {overlap}");
            assert_eq!((total, report.bytes), (byte_sum(&bytes), len as u64));
            assert_eq!(report.chunks, len.div_ceil(chunk_bytes) as u64);
        }
    }
}

/// Catches a pipe between files whose chunks overtake those before it, or are overtaken, with several readers.
fn files_and_readers_come_in_order() {
    let folder = Folder::new("mixed");
    let session = on_cpu(4 << 12);
    for engine in ENGINES.iter().copied() {
        for round in 0..20 {
            let parts: Vec<Vec<u8>> =
                (0..5).map(|k| noise(round * 5 + k, 10_000 + k as usize * 777)).collect();
            let file = |k: usize| Input::files([folder.write(&k.to_string(), &parts[k])]);
            let pipe = |k: usize| Input::reader(k.to_string(), Portions::new(parts[k].clone()));
            let input = file(0).and(pipe(1)).and(file(2)).and(file(3)).and(pipe(4));
            let mut seen = Vec::new();
            let stream = session.stream(0, input).chunk(4096).engine(engine).readers(3).op("sum");
            stream
                .run(|chunk, result| {
                    assert_eq!(u64::from(result.unwrap()), byte_sum(&chunk.bytes()));
                    seen.extend(chunk.bytes());
                })
                .unwrap();
            assert!(seen == parts.concat(), "{engine:?}");
        }
    }
}

/// Catches lines that are cut although they fit into a chunk.
fn chunks_end_after_delimiters() {
    let folder = Folder::new("lines");
    let lines: String = (0..5000).map(|k| format!("{k} {}\n", "x".repeat(k % 90))).collect();
    let path = folder.write("lines", lines.as_bytes());
    let session = on_cpu(1 << 14);
    for input in [Input::files([&path]), Input::reader("lines", Portions::new(lines.clone().into()))] {
        let mut seen = Vec::new();
        let stream = session.stream(0, input).chunk(1000).delimiter(b'\n').op("sum");
        stream
            .run(|chunk, _| {
                let bytes = chunk.bytes();
                assert_eq!(
                    (bytes.last(), chunk.len() > 800),
                    (Some(&b'\n'), chunk.offset() + 2000 < lines.len() as u64 || chunk.len() > 800)
                );
                seen.extend(bytes);
            })
            .unwrap();
        assert!(seen == lines.as_bytes());
    }
    // A line that is longer than a chunk is cut, and what comes after the last line feed is a chunk too.
    let mut lens = Vec::new();
    let text = format!("{}\nab", "x".repeat(2500));
    let stream =
        session.stream(0, Input::reader("long", Portions::new(text.into()))).chunk(1000).delimiter(b'\n');
    stream.op("sum").run(|chunk, _| lens.push(chunk.len())).unwrap();
    assert_eq!(lens, [1000, 1000, 501, 2]);
}

/// A reader that gets its bytes from a channel, and ends with it.
struct Sent(std::sync::mpsc::Receiver<Vec<u8>>);

impl Read for Sent {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let Ok(bytes) = self.0.recv() else { return Ok(0) };
        to[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }
}

/// Catches bytes that wait for a chunk to become full although a time was set: the next ones are sent only when the last
/// ones were handed over.
fn bytes_do_not_wait_for_a_full_chunk() {
    let session = on_cpu(1 << 14);
    let (send, bytes) = channel();
    send.send(b"first".to_vec()).unwrap();
    let (mut send, mut seen) = (Some(send), Vec::new());
    let stream = session
        .stream(0, Input::reader("sent", Sent(bytes)))
        .flush_after(Duration::from_millis(5))
        .chunk(4096);
    stream
        .op("sum")
        .run(|chunk, _| {
            seen.extend(chunk.bytes());
            match seen.len() {
                5 => send.as_ref().unwrap().send(b" and ".to_vec()).unwrap(),
                10 => send.as_ref().unwrap().send(b"last".to_vec()).unwrap(),
                _ => drop(send.take()),
            }
        })
        .unwrap();
    assert_eq!(seen, b"first and last");
}

/// Catches sockets whose last bytes are lost.
fn sockets_are_read_until_they_are_closed() {
    let session = on_cpu(1 << 14);
    let bytes = noise(4, 50_000);
    let check = |input: Input| {
        let mut seen = Vec::new();
        session.stream(0, input).chunk(4096).op("sum").run(|chunk, _| seen.extend(chunk.bytes())).unwrap();
        assert!(seen == bytes);
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::scope(|threads| {
        threads.spawn(|| listener.accept().unwrap().0.write_all(&bytes).unwrap());
        check(Input::tcp(address.clone()));
    });
    drop(listener);
    let refused = session.stream(0, Input::tcp(address)).op("sum").chunk(64).run(|_, _| {}).unwrap_err();
    assert!(refused.to_string().starts_with("cannot open tcp://127.0.0.1:"), "{refused}");
    #[cfg(unix)]
    {
        let folder = Folder::new("socket");
        let path = folder.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        std::thread::scope(|threads| {
            threads.spawn(|| listener.accept().unwrap().0.write_all(&bytes).unwrap());
            check(Input::unix(&path));
        });
    }
}

/// Catches a pipe that is opened while a lock is held, or read at an offset.
fn named_pipes_are_read_as_they_come() {
    if !cfg!(unix) {
        return;
    }
    let folder = Folder::new("fifo");
    let path = folder.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let bytes = noise(5, 30_000);
    let after = folder.write("after", &noise(6, 9_000));
    let session = on_cpu(1 << 14);
    for engine in ENGINES.iter().copied() {
        let mut seen = Vec::new();
        std::thread::scope(|threads| {
            threads.spawn(|| std::fs::write(&path, &bytes).unwrap());
            let stream =
                session.stream(0, Input::files([&path, &after])).chunk(4096).engine(engine).readers(2);
            stream.op("sum").run(|chunk, _| seen.extend(chunk.bytes())).unwrap();
        });
        assert!(seen == [&bytes[..], &noise(6, 9_000)].concat(), "{engine:?}");
    }
}

/// Catches files whose size the system gives as 0, and which are then taken to be empty.
fn files_of_the_system_are_read_although_they_seem_empty() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let expected = std::fs::read("/proc/version").unwrap();
    let mut seen = Vec::new();
    let session = on_cpu(1 << 14);
    session
        .stream(0, Input::files(["/proc/version"]))
        .chunk(4096)
        .op("sum")
        .run(|c, _| seen.extend(c.bytes()))
        .unwrap();
    assert_eq!(seen, expected);
}
