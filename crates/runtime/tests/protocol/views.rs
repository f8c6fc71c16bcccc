//! Tests of control words, the debug log and the IO queue.

use pelton::protocol::control::{self, Control, WordWriter};
use pelton::protocol::io::{self, IoOp, IoRequest, IoState};
use pelton::protocol::log::{self, Format, LogView};
use pelton::protocol::slot;
use proptest::prelude::*;

#[test]
fn the_rows_of_a_table_do_not_overlap() {
    let free: Vec<u32> =
        (0..200).filter(|word| !control::TABLE.iter().any(|row| row.contains(*word))).collect();
    assert_eq!(free, (146..160).collect::<Vec<u32>>());
    for word in 0..200 {
        assert!(control::TABLE.iter().filter(|row| row.contains(word)).count() <= 1, "word {word}");
    }
    assert!((0..8).all(|word| io::TABLE.iter().filter(|row| row.contains(word)).count() == 1));
    assert!((0..16).all(|word| {
        slot::TABLE.iter().filter(|row| row.contains(word)).count() == if word == 2 { 2 } else { 1 }
    }));
}

#[test]
fn every_word_is_seen_through_its_name() {
    let words: Vec<u64> = (0..170).collect();
    let control = Control::new(&words[..]).unwrap();
    assert_eq!((control.shutdown(), control.done_count(), control.tenant_base()), (0, 1, 2));
    assert_eq!(control.masks(), (3..32).collect::<Vec<u64>>());
    assert_eq!(control.quotas(), (32..64).collect::<Vec<u64>>());
    assert_eq!(control.claims(), (64..96).collect::<Vec<u64>>());
    assert_eq!(control.metrics(), (96..128).collect::<Vec<u64>>());
    assert_eq!(control.epoch(), 128);
    assert_eq!(control.partitions(), (129..135).collect::<Vec<u64>>());
    assert_eq!(control.starvation(), 135);
    assert_eq!(control.levels(), (136..141).collect::<Vec<u64>>());
    assert_eq!((control.heartbeat(), control.log_read()), (141, 142));
    assert_eq!((control.log_lost(), control.checks()), (143, 144));
    assert_eq!(control.observables(), (160..170).collect::<Vec<u64>>());
    assert!(Control::new(&words[..160]).unwrap().observables().is_empty());
}

#[test]
fn short_control_names_the_word_that_is_missing() {
    let why = |len| Control::new(vec![0u32; len]).unwrap_err().to_string();
    assert_eq!(why(0), "control is 0 words long and ends before word 0 (shutdown)");
    assert_eq!(why(142), "control is 142 words long and ends before word 142 (log_read)");
    assert_eq!(why(40), "control is 40 words long and ends before word 40 (quotas)");
}

#[test]
fn the_host_writes_its_own_words_alone() {
    let mut control = Control::new(vec![0u32; 161]).unwrap();
    control.set_host_word(control::MASKS + 28, 7).unwrap();
    assert_eq!(control.masks()[28], 7);
    for row in control::TABLE {
        assert_eq!(control.set_host_word(row.first, 1).is_ok(), row.mark == WordWriter::Host, "{}", row.name);
    }
    let error = control.set_host_word(control::CLAIMS + 1, 1).unwrap_err();
    assert_eq!(error.to_string(), "control: word 65 (claims) is not written by the host");
    assert!(control.set_host_word(150, 1).is_err() && control.set_host_word(u32::MAX, 1).is_err());
}

/// A log that is written in the way of a kernel.
struct Writing {
    words: Vec<u32>,
}

impl Writing {
    fn new() -> Self {
        Writing { words: vec![0; log::WORDS] }
    }

    fn put(&mut self, number: u32) {
        let at = (log::RECORDS + number % 64 * 4) as usize;
        self.words[at..at + 4].copy_from_slice(&[log::head_word(9, number), number, !number, 5]);
        self.words[0] = number.wrapping_add(1);
    }

    fn read(&self, read: u32, cursor: u32) -> Vec<u32> {
        let records: Vec<_> = LogView::new(&self.words).unwrap().records(read, cursor).unwrap().collect();
        for record in &records {
            assert_eq!((record.format, record.values[1], record.slot), (9, !record.values[0], 5));
        }
        records.iter().map(|record| record.values[0]).collect()
    }
}

#[test]
fn the_first_lap_looks_as_in_a_drained_batch() {
    let mut log = Writing::new();
    log.put(0);
    assert_eq!(log.words[..5], [1, 9, 0, u32::MAX, 5]);
}

#[test]
fn records_are_read_in_order_round_the_end() {
    for start in [0, 63, 64, 70, (64 << 16) - 3, u32::MAX - 10] {
        let mut log = Writing::new();
        let numbers: Vec<u32> = (0..64).map(|k| start.wrapping_add(k)).collect();
        numbers.iter().for_each(|number| log.put(*number));
        let cursor = LogView::new(&log.words).unwrap().cursor();
        assert_eq!(log.read(start, cursor), numbers);
        assert_eq!(log.read(start.wrapping_add(60), cursor), numbers[60..]);
        assert!(log.read(cursor, cursor).is_empty());
    }
}

#[test]
fn a_record_that_is_not_there_yet_ends_the_reading() {
    let mut log = Writing::new();
    for number in 0..70 {
        log.put(number);
    }
    // Records 70 and 71 are counted, but only record 71 is there. The place of record 70 still holds the record of the
    // lap before.
    log.put(71);
    assert_eq!(log.read(66, 72), [66, 67, 68, 69]);
    // In the first lap, a record that was never written is zero.
    assert!(Writing::new().read(0, 3).is_empty());
}

#[test]
fn impossible_logs_are_errors() {
    let short = vec![0; 256];
    assert_eq!(
        LogView::new(&short).unwrap_err().to_string(),
        "debug log is 256 words long and ends before word 256 (records)"
    );
    assert_eq!(
        LogView::new(&[]).unwrap_err().to_string(),
        "debug log is 0 words long and ends before word 0 (cursor)"
    );
    let words = vec![0; log::WORDS];
    let error = LogView::new(&words).unwrap().records(0, 65).err().unwrap();
    assert_eq!(
        error.to_string(),
        "debug log: word 0 (cursor) is 0x41, but the log does not hold that many unread records"
    );
}

fn render(format: &str, values: [u32; 2]) -> String {
    format.parse::<Format>().unwrap().render(&log::LogRecord { format: 1, values, slot: 0 })
}

#[test]
fn formats_show_values_as_asked() {
    assert_eq!(render("a {} b {:x}!", [7, 255]), "a 7 b ff!");
    assert_eq!(render("{:i}{:f}", [u32::MAX, 1.5f32.to_bits()]), "-11.5");
    assert_eq!(render("{{{}}} é {{}}", [4_000_000_000, 0]), "{4000000000} é {}");
    assert_eq!(render("", [1, 2]), "");
}

#[test]
fn bad_formats_say_where() {
    let why = |format: &str| format.parse::<Format>().unwrap_err().to_string();
    assert_eq!(why("{}{}{}"), "format \"{}{}{}\", byte 4: a record has only two values");
    assert_eq!(
        why("é {:y}"),
        "format \"é {:y}\", byte 3: a placeholder is {}, {:x}, {:i} or {:f}, and {{ prints a brace"
    );
    assert_eq!(why("a } b"), "format \"a } b\", byte 2: }} prints a closing brace");
    assert!(why("{").contains("byte 0"));
}

proptest! {
    #[test]
    fn any_text_is_a_format_or_an_error(text in "[{}:xif a-é]{0,12}") {
        if let Ok(format) = text.parse::<Format>() {
            format.render(&log::LogRecord { format: 1, values: [1, 2], slot: 0 });
        }
    }

    #[test]
    fn text_without_braces_is_itself(text in "[^{}]{0,20}") {
        prop_assert_eq!(render(&text, [0, 0]), text);
    }

    #[test]
    fn requests_are_read_back(op in 0usize..3, state in 0usize..3, offset: u64, words: [u32; 4]) {
        let [source, destination, bytes, tag] = words;
        let (op, state) = (IoOp::ALL[op], IoState::ALL[state]);
        let request = IoRequest { op, source, destination, offset, bytes, state, tag };
        prop_assert_eq!(IoRequest::decode(&request.encode(), 0), Ok(Some(request)));
    }
}

#[test]
fn a_request_has_these_words() {
    let request = IoRequest {
        op: IoOp::Write,
        source: 1,
        destination: 2,
        offset: 0x3_0000_0004,
        bytes: 5,
        state: IoState::Error,
        tag: 6,
    };
    assert_eq!(request.encode(), [2, 1, 2, 4, 3, 5, 0x11, 6]);
}

#[test]
fn a_queue_is_read_strictly() {
    let mut words = vec![0u32; io::WORDS];
    words[8..16].copy_from_slice(&[1, 2, 3, 4, 0, 6, 0x10, 8]);
    let all: Vec<_> = io::decode_queue(&words).unwrap().map(Result::unwrap).collect();
    assert_eq!(all.len(), 64);
    assert!(all[0].is_none() && all[1].is_some_and(|request| request.tag == 8));
    let why = |at: usize, value: u32| {
        let mut words = words.clone();
        words[at] = value;
        io::decode_queue(&words).unwrap().find_map(Result::err).unwrap().to_string()
    };
    assert_eq!(why(8, 4), "IO request 1: word 0 (op) is 0x4, which is not an operation");
    assert_eq!(why(14, 1), "IO request 1: word 6 (state) is 0x1, which is not a state of a request");
    assert_eq!(why(7, 3), "IO request 0: word 7 (tag) is 0x3, although there is no request");
    let error = io::decode_queue(&words[..511]).err().unwrap();
    assert_eq!(error.to_string(), "IO queue is 511 words long and ends before word 511 (tag)");
}
