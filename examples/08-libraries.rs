//! A library of functions as text. Handlers import its functions, which then run as the handler's own code.

use std::error::Error;
use std::time::Duration;

use pelton::ir::text::{self, ColorMode};
use pelton::{Error as SessionError, Handler, Session, Spec, Task, device};

/// Functions that any handler may import. They work on regions that the handler declares in the same words.
const HASHES: &str = "
buffer data: [u32; ?] global read_write

fn mix(%x: u32, %seed: u32) -> u32 {
  %y = xor %x, %seed
  %z = mul %y, 0x9e3779b1
  return %z
}

fn count(%bucket: u32) -> u32 {
  %old = atomic_add relaxed device @data[%bucket], 1
  return %old
}
";

/// Puts its argument into one of eight buckets.
const INSERT: &str = "
import fn mix(%x: u32, %seed: u32) -> u32
import fn count(%bucket: u32) -> u32
buffer arg: [u32; 12] global read
buffer data: [u32; ?] global read_write

fn insert() -> u32 {
  %x = load @arg[0]
  %hash = call mix(%x, 7)
  %bucket = shr %hash, 29
  %old = call count(%bucket)
  return %bucket
}
";

fn main() -> Result<(), Box<dyn Error>> {
    let device = device::open("auto")?;
    let library = text::parse(HASHES)
        .map_err(|list| text::render_diagnostics("hashes", HASHES, &list, ColorMode::Plain))?;
    let spec = Spec::default().handler("insert", Handler::from_text(INSERT));
    // Without the library nothing starts, and the refusal names what is missing.
    let Err(SessionError::Refused(why)) = Session::launch(&device, &spec) else { panic!("it has imports") };
    assert!(why.to_string().contains("`mix(u32, u32) -> u32`"), "{why}");

    let session = Session::launch(&device, &spec.library(library))?;
    let insert = session.opcode("insert")?;
    let mut producer = session.producer(0)?;
    for x in 0..100u32 {
        let bucket = producer.submit(Task::new(insert).args([x]))?.wait(Duration::from_secs(10))?;
        assert_eq!(bucket, (x ^ 7).wrapping_mul(0x9e37_79b1) >> 29);
    }
    let buckets = session.view::<u32>(0, "data")?.read(0, 8)?;
    assert_eq!(buckets.iter().sum::<u32>(), 100);
    println!("a hundred numbers in eight buckets: {buckets:?}");
    Ok(())
}
