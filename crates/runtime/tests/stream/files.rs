//! Files and folders.

use std::fs::File;
use std::sync::Mutex;

use pelton::Placement;
use pelton::stream::{Input, ResultOrder, Stream};

use crate::*;

pub(crate) const TESTS: &[Test] = named![
    every_byte_reaches_one_task,
    what_overlaps_is_what_was_before,
    nothing_is_missed_where_chunks_meet,
    arguments_are_as_promised,
    the_rest_of_a_chunk_is_zero,
    offsets_beyond_four_gigabytes_are_whole,
    folders_are_read_in_order,
    large_files_flow_through_few_chunks,
    sizes_of_inputs_are_known,
    the_oldest_chunk_always_has_a_slot,
];

const CHUNK: usize = 4096;

/// The sizes of files at which something might go wrong.
const SIZES: [usize; 11] =
    [0, 1, 63, 64, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 0, 5 * CHUNK + 7, 3 * CHUNK - 2];

/// A file that a test has written.
type Written = (PathBuf, Vec<u8>);

fn write_files(folder: &Folder) -> Vec<Written> {
    let file = |(number, size): (usize, &usize)| {
        let bytes = noise(number as u32 + 1, *size);
        (folder.write(&format!("file {number}"), &bytes), bytes)
    };
    SIZES.iter().enumerate().map(file).collect()
}

/// Runs a stream over files, and checks what comes back against them.
fn check_stream(stream: Stream<'_>, files: &[Written], order: ResultOrder, what: &str) {
    let (mut seen, mut total): (Vec<Vec<u8>>, u64) = (vec![Vec::new(); files.len()], 0);
    let mut last = None;
    let report = stream
        .order(order)
        .op("sum")
        .run(|chunk, result| {
            let (number, bytes) = (chunk.file() as usize, chunk.bytes());
            assert_eq!(chunk.name(), files[number].0.display().to_string(), "{what}");
            let from = chunk.offset() as usize;
            assert_eq!(bytes, files[number].1[from..from + chunk.len()], "{what}");
            total += u64::from(result.unwrap());
            let place = Some((chunk.file(), chunk.offset() + chunk.len() as u64));
            assert!(order == ResultOrder::AsTheyEnd || last < place, "{what}: {last:?} before {place:?}");
            last = place;
            if order == ResultOrder::ByOffset {
                assert_eq!(
                    from + chunk.overlap(),
                    seen[number].len(),
                    "{what}: nothing is left out or repeated"
                );
                seen[number].extend(&bytes[chunk.overlap()..]);
            } else {
                let len = seen[number].len() + chunk.len() - chunk.overlap();
                seen[number].resize(len, 0);
            }
        })
        .unwrap();
    let all: Vec<u8> = files.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
    assert_eq!(total, byte_sum(&all), "{what}");
    assert_eq!(report.bytes, all.len() as u64, "{what}");
    assert_eq!((report.files, report.faults, report.stopped), (files.len() as u64, 0, false), "{what}");
    let chunks: usize = files.iter().map(|(_, bytes)| bytes.len().div_ceil(CHUNK)).sum();
    assert_eq!(report.chunks, chunks as u64, "{what}");
    for ((_, bytes), seen) in files.iter().zip(&seen) {
        assert_eq!(seen.len(), bytes.len(), "{what}");
    }
}

/// Catches bytes that are lost, read twice or out of order, with any engine and with fewer chunks than readers.
fn every_byte_reaches_one_task() {
    let folder = Folder::new("files");
    let files = write_files(&folder);
    for device in devices() {
        for chunks in [1, 2, 7, 64] {
            let session = launch(&device, (chunks * CHUNK) as u32);
            for engine in ENGINES.iter().copied() {
                for order in ORDERS {
                    for readers in [1, 3] {
                        let what = format!("{}, {chunks} chunks, {engine:?}, {order:?}", device.caps().name);
                        let input = Input::files(files.iter().map(|(path, _)| path));
                        let stream = session.stream(0, input).chunk(CHUNK).engine(engine).readers(readers);
                        check_stream(stream, &files, order, &what);
                    }
                }
            }
        }
    }
}

/// Catches an overlap that is missing, too long at the beginning of a file, or counted as new.
fn what_overlaps_is_what_was_before() {
    let folder = Folder::new("overlap");
    let files = write_files(&folder);
    for overlap in [1, 64, 100, CHUNK - 1, CHUNK, 2 * CHUNK + 5] {
        let session = on_cpu((5 * (CHUNK + overlap).next_multiple_of(64)) as u32);
        for engine in ENGINES.iter().copied() {
            for order in ORDERS {
                let input = Input::files(files.iter().map(|(path, _)| path));
                let stream = session.stream(0, input).chunk(CHUNK).overlap(overlap).engine(engine);
                check_stream(stream, &files, order, &format!("an overlap of {overlap}, {engine:?}"));
            }
        }
    }
}

/// Catches chunks between which a pattern falls through, or is found twice.
fn nothing_is_missed_where_chunks_meet() {
    // Counts "abc" whose last byte is new.
    let count = Handler::lane_wide(|task| {
        let (f, bytes) = (task.body(), task.region::<u32>("stream"));
        let first = f.max(task.arg(5), 2);
        let count = f.range((first, f.max(task.arg(1), first), f.lit(1)), f.lit(0), |_, at, count| {
            let byte = |back: u32| f.load_byte(bytes.at(task.arg(0) + ((at - back) >> 2)), (at - back) & 3);
            let found =
                byte(0).eq(u32::from(b'c')) & byte(1).eq(u32::from(b'b')) & byte(2).eq(u32::from(b'a'));
            f.select(found, count + 1, count)
        });
        task.finish(count);
    });
    let folder = Folder::new("pattern");
    let mut text = vec![b'.'; 100_000];
    let places = (0..900).map(|k| k * 111 + k % 7).chain([64 * 10 - 1, 64 * 20 - 2, 64 * 30, 99_997]);
    places.for_each(|at| text[at..at + 3].copy_from_slice(b"abc"));
    let expected = text.windows(3).filter(|window| window == b"abc").count() as u32;
    let path = folder.write("text", &text);
    let session = Session::launch(&open("cpu").unwrap(), &spec(1 << 14).handler("count", count)).unwrap();
    for chunk in [64, 65, 1000, 4096] {
        let mut found = 0;
        let stream = session.stream(0, Input::files([&path])).chunk(chunk).overlap(2).op("count");
        stream.run(|_, result| found += result.unwrap()).unwrap();
        assert_eq!(found, expected, "chunks of {chunk}");
    }
}

/// Catches arguments that do not say where the chunk is and what it holds.
fn arguments_are_as_promised() {
    let folder = Folder::new("arguments");
    let paths = [folder.write("a", &noise(1, 10_000)), folder.write("b", &noise(2, 300))];
    let session = on_cpu(64 << 10);
    for at in 0..8u32 {
        let stream =
            session.stream(0, Input::files(&paths)).chunk(CHUNK).overlap(32).op("argument").args(&[at, 77]);
        let mut chunks = 0;
        stream
            .run(|chunk, result| {
                let expected = match at {
                    0 => chunk.place(),
                    1 => chunk.len() as u32,
                    2 => chunk.offset() as u32,
                    3 => 0,
                    4 => chunk.file(),
                    5 => chunk.overlap() as u32,
                    6 => 6,
                    _ => 77,
                };
                assert_eq!(result, Ok(expected), "argument {at}");
                assert_eq!(chunk.place() % 16, 0, "chunks begin at a multiple of 64 bytes");
                chunks += 1;
            })
            .unwrap();
        assert_eq!(chunks, 4);
    }
}

/// Catches bytes of an earlier chunk behind the end of a shorter one.
fn the_rest_of_a_chunk_is_zero() {
    let folder = Folder::new("rest");
    let session = on_cpu(CHUNK as u32);
    for engine in ENGINES.iter().copied() {
        for len in [1, 60, 61, 63, 64, 65, 1000, 4095] {
            let paths = [folder.write("full", &[0xff; CHUNK]), folder.write("short", &vec![0xff; len])];
            let stream = session.stream(0, Input::files(&paths)).chunk(CHUNK).engine(engine).op("dirt");
            stream.run(|_, result| assert_eq!(result, Ok(0), "{len} bytes")).unwrap();
        }
    }
}

/// Catches offsets that are cut to 32 bits. The file has no blocks on disk, and no task reads its bytes.
fn offsets_beyond_four_gigabytes_are_whole() {
    let folder = Folder::new("large");
    let path = folder.path().join("sparse");
    File::create(&path).unwrap().set_len((4 << 30) + 100).unwrap();
    let session = on_cpu(3 << 26);
    for engine in ENGINES.iter().copied() {
        let (mut bytes, mut high) = (0, 0);
        let stream = session.stream(0, Input::files([&path])).chunk(1 << 26).engine(engine);
        let report = stream
            .op("argument")
            .args(&[3])
            .run(|chunk, result| {
                assert_eq!(chunk.offset(), bytes);
                bytes += chunk.len() as u64;
                high += result.unwrap();
            })
            .unwrap();
        assert_eq!((report.bytes, high), ((4 << 30) + 100, 1), "{engine:?}");
    }
}

/// Catches files of a folder that are left out, or come in an order that depends on the system.
fn folders_are_read_in_order() {
    let folder = Folder::new("folder");
    let names = ["a/b/deep", "a/b.txt", "a/c", "b", "empty", "z/last"];
    for (number, name) in names.iter().enumerate() {
        folder.write(name, &noise(1, if *name == "empty" { 0 } else { number + 1 }));
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(folder.path(), folder.path().join("a/loop")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("b"), folder.path().join("c link")).unwrap();
    }
    let mut read = Vec::new();
    let report = on_cpu(1 << 16)
        .stream(0, Input::folder(folder.path()))
        .chunk(CHUNK)
        .op("sum")
        .run(|chunk, _| {
            read.push(chunk.name().strip_prefix(&*folder.path().to_string_lossy()).unwrap()[1..].to_owned())
        })
        .unwrap();
    let expected: &[&str] = if cfg!(unix) {
        &["a/b/deep", "a/b.txt", "a/c", "b", "c link", "z/last"]
    } else {
        &["a/b/deep", "a/b.txt", "a/c", "b", "z/last"]
    };
    assert_eq!(read, expected);
    assert_eq!(report.files, expected.len() as u64 + 1, "an empty file has no chunk, but it was opened");
}

/// Catches a stream that needs more memory the more it reads, and results that are wrong under load.
fn large_files_flow_through_few_chunks() {
    let folder = Folder::new("flow");
    let bytes = noise(9, 8 << 20);
    let path = folder.write("flow", &bytes);
    let expected = byte_sum(&bytes);
    let session = on_cpu(4 << 16);
    for engine in ENGINES.iter().copied() {
        for order in ORDERS {
            let places = Mutex::new(std::collections::BTreeSet::new());
            let mut total = 0;
            let stream =
                session.stream(0, Input::files([&path; 2])).chunk(1 << 16).engine(engine).order(order);
            let report = stream
                .op("sum")
                .run(|chunk, result| {
                    places.lock().unwrap().insert(chunk.place());
                    total += u64::from(result.unwrap());
                })
                .unwrap();
            assert_eq!((total, report.bytes, report.engine), (2 * expected, 16 << 20, engine));
            assert!(places.lock().unwrap().len() <= 4);
        }
    }
}

/// Catches a size that leaves folders out. A progress bar needs it.
fn sizes_of_inputs_are_known() {
    let folder = Folder::new("sizes");
    let path = folder.write("in/a", &[0; 100]);
    folder.write("in/below/b", &[0; 23]);
    let input = Input::files([&path]).and(Input::folder(folder.path())).and(Input::reader("x", &[1u8][..]));
    assert_eq!(input.known_bytes(), 223);
}

/// Catches a stream that gets stuck because newer chunks, whose results must wait, have all slots of the ring: the first piece takes
/// longest to read, and there are few slots and many chunks and readers.
fn the_oldest_chunk_always_has_a_slot() {
    let folder = Folder::new("stuck");
    let large = folder.write("large", &noise(1, 1 << 20));
    let small: Vec<PathBuf> = (0..40).map(|k| folder.write(&format!("small {k}"), &[1, 2, 3])).collect();
    for (slots, groups, placement) in
        [(4, 1, Placement::Far), (4, 2, Placement::Near), (8, 2, Placement::Both)]
    {
        let geometry = Geometry::new(slots).groups(groups);
        let base = spec(24 << 20);
        let spec = Spec { geometry, ..base }.placement(placement);
        let session = Session::launch(&open("cpu").unwrap(), &spec).unwrap();
        for engine in ENGINES.iter().copied() {
            for _ in 0..5 {
                let files = [&large].into_iter().chain(&small).chain([&large]).chain(&small);
                let stream = session.stream(0, Input::files(files)).chunk(1 << 20).engine(engine).readers(8);
                let report = stream.op("argument").run(|_, result| assert!(result.is_ok())).unwrap();
                assert_eq!((report.chunks, report.bytes), (82, (2 << 20) + 240), "{placement:?}, {engine:?}");
            }
        }
    }
}
