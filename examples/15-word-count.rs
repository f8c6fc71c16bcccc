//! Counts the words of files of any size: they stream through a few chunks of memory that the kernel sees too.

use std::error::Error;
use std::path::Path;

use pelton::ir::types::Type;
use pelton::stream::Input;
use pelton::{Geometry, Handler, Region, Session, Spec, device};

/// Counts the bytes of a chunk that begin a word: they are no white space, and the byte before them is.
fn words() -> Handler {
    Handler::lane_wide(|task| {
        let (f, chunks) = (task.body(), task.region::<u32>("stream"));
        // The stream says where the chunk is, how many bytes it has, and how many of them the last one had too.
        let (place, len, known) = (task.arg(0), task.arg(1), task.arg(5));
        let is_space = |at| {
            let byte = f.load_byte(chunks.at(place + (at >> 2)), at & 3);
            byte.eq(32) | (byte - 9).lt(5)
        };
        // A chunk that repeats no byte begins a file, and so does its first word.
        let first =
            f.choose(known.eq(0) & len.ne(0), || f.select(is_space(f.lit(0)), f.lit(0), 1), || f.lit(0));
        let from = f.max(known, 1);
        let count = f.range((from, f.max(from, len), f.lit(1)), first, |_, at, count| {
            f.select(is_space(at - 1) & !is_space(at), count + 1, count)
        });
        task.finish(count);
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    // Sixteen chunks of 64 KiB, each with a byte of the one before it.
    let region = Region::new("stream", Type::U32, 16 * (64 << 10) / 4 + 16 * 16).read_only().in_host_memory();
    let spec = Spec::new(Geometry::new(256)).region(region).handler("words", words());
    let session = Session::launch(&device::open("auto")?, &spec)?;

    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let input = Input::folder(&folder).and(Input::reader("a sentence", "to be or not to be".as_bytes()));
    let mut counted = 0;
    let report =
        session.stream(0, input).chunk(64 << 10).overlap(1).op("words").run(
            |chunk, result| match result {
                Ok(words) => counted += u64::from(words),
                Err(why) => println!("{} at {}: {why}", chunk.name(), chunk.offset()),
            },
        )?;

    let mut expected = 6;
    for entry in std::fs::read_dir(folder)? {
        let text = std::fs::read(entry?.path())?;
        expected += text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count() as u64;
    }
    assert_eq!(counted, expected);
    println!("{counted} words in {} bytes of {} files", report.bytes, report.files);
    Ok(())
}
