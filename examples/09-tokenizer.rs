//! Bytes in, bytes out: a tokenizer takes a text as its payload, and replies with how many words there are of each
//! length.

use std::error::Error;
use std::time::Duration;

use pelton::ir::builder::Val;
use pelton::kernel::HandlerBody;
use pelton::{Handler, Session, Spec, Task, device};

/// Words of up to fifteen letters are counted by their length, and longer ones together, as if their length were 0.
const LENGTHS: u32 = 16;

/// Adds one to the count of words of a length. A reply is zero when a task begins, so counts can be added up in it.
fn count_word<'b>(task: &HandlerBody<'b>, letters: Val<'b, u32>) {
    let (f, counts) = (task.body(), task.reply());
    let length = f.select(letters.lt(LENGTHS), letters, 0);
    f.store(counts.at(length), f.load(counts.at(length)) + 1);
}

fn main() -> Result<(), Box<dyn Error>> {
    let tokenize = Handler::lane_wide(|task| {
        let f = task.body();
        let (words, letters) = f.range(
            (f.lit(0), task.payload_len(), f.lit(1)),
            (f.lit(0), f.lit(0)),
            |_, at, (words, letters)| {
                let letter = ((task.payload_byte(at) | 0x20) - u32::from(b'a')).lt(26);
                let ends = !letter & letters.ne(0);
                f.when(ends, || count_word(&task, letters));
                (words + f.select(ends, 1, 0), f.select(letter, letters + 1, 0))
            },
        );
        f.when(letters.ne(0), || count_word(&task, letters));
        // Without this, the reply would be empty.
        task.set_reply_len(4 * LENGTHS);
        task.finish(words + f.select(letters.ne(0), 1, 0));
    });
    let spec = Spec::default().payload(256).reply(4 * LENGTHS).handler("tokenize", tokenize);
    let session = Session::launch(&device::open("auto")?, &spec)?;
    let tokenize = session.opcode("tokenize")?;
    let mut producer = session.producer(0)?;

    // The texts are copied when they are submitted; nothing is allocated for them, and none of them need outlive that.
    let lines: Vec<&str> = include_str!("09-tokenizer.rs").lines().collect();
    let tasks = lines.iter().map(|line| Task::new(tokenize).bytes(line.as_bytes()));
    let mut span = producer.submit_all(tasks)?;
    span.wait(Duration::from_secs(10))?;
    let mut total = [0; LENGTHS as usize];
    for (k, line) in lines.iter().enumerate() {
        let words = line.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty()).count();
        assert_eq!(span.result(k).ok_or("it is there")??, words as u32, "{line}");
        let mut counts = [0; LENGTHS as usize];
        assert_eq!(span.reply_words(k, &mut counts).ok_or("it is there")??, LENGTHS as usize);
        assert_eq!(counts.iter().sum::<u32>(), words as u32, "{line}");
        total.iter_mut().zip(counts).for_each(|(total, count)| *total += count);
    }
    println!("the words of {} lines by their length: {:?}", lines.len(), &total[1..]);
    Ok(())
}
