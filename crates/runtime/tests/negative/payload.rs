//! Payloads and replies: that they arrive whole, at every length, and that no task sees those of another.

use pelton::ir::builder::Val;
use pelton::kernel::{AssembleError, GroupHandlerBody, HandlerBody, SlotBody};
use pelton::protocol::FaultCode;
use pelton::{
    Batch, Claim, Drain, Error, Handler, PayloadTask, Priority, Producer, Session, Spec, SubmitError, Task,
    Tenant,
};

use crate::common::*;

pub(crate) const TESTS: &[Test] = named![
    payloads_of_every_length_arrive_whole,
    payloads_that_do_not_fit_are_refused,
    a_fused_kernel_has_payloads_too,
    a_task_reads_nothing_beyond_its_own_payload,
    a_shorter_payload_hides_a_longer_one_before_it,
    a_reply_is_never_that_of_an_earlier_task,
    replies_stay_while_their_tickets_are_held,
    replies_that_do_not_fit_are_faults,
    a_million_words_go_in_and_come_back,
    drained_batches_bring_and_reply_in_any_order,
    a_drained_slot_shows_nothing_of_another_tenant,
    handlers_that_cannot_have_payloads_are_refused,
];

/// The most bytes of a payload in these tests. It is not a multiple of four.
const MOST: u32 = 102;
/// The most bytes of a reply.
const REPLY: u32 = 112;

/// The opcode of a task that replies with its payload, each word changed, by one lane.
const ECHO: u32 = 9;
/// The opcode of a task that does the same by all lanes of a group.
const WIDE_ECHO: u32 = 10;
/// The opcode of a task that loads one word or one byte of its payload.
const PEEK: u32 = 11;
/// The opcode of a task that stores a word in its reply, if its first argument says so, and then says a length. Its
/// result is what it finds in the reply before.
const SAY: u32 = 12;

/// What an echo makes of word `at` of a payload.
fn changed(word: u32, at: u32) -> u32 {
    word.wrapping_mul(0x9e37_79b9) ^ at
}

/// Stores the changed words of the payload in the reply, from `first` on and `step` apart.
fn echo_words<'b>(task: &HandlerBody<'b>, (first, step): (Val<'b, u32>, Val<'b, u32>)) {
    let f = task.body();
    let (payload, reply) = (task.payload(), task.reply());
    f.range((first, f.len(payload), step), (), |_, at, ()| {
        f.store(reply.at(at), (f.load(payload.at(at)) * 0x9e37_79b9) ^ at);
    });
}

fn echo(task: HandlerBody<'_>) {
    let f = task.body();
    echo_words(&task, (f.lit(0), f.lit(1)));
    task.set_reply_len(task.payload_len());
    task.finish(task.payload_len());
}

fn wide_echo(group: GroupHandlerBody<'_>) {
    let f = group.body();
    echo_words(&group, (f.lane(), f.lanes()));
    // The length and the words of a payload may decide whether lanes meet.
    f.when(f.len(group.payload()).ne(0), || {
        f.when(f.load(group.payload().at(0)).gt(5), || f.barrier());
    });
    group.set_reply_len(group.payload_len());
    group.finish(group.payload_len());
}

fn peek(task: HandlerBody<'_>) {
    let f = task.body();
    let whole = || f.load(task.payload().at(task.arg(0)));
    let byte = || f.load_byte(task.payload().at(task.arg(0)), task.arg(1));
    task.finish(f.choose(task.arg(1).eq(9), whole, byte));
}

fn say(task: HandlerBody<'_>) {
    let f = task.body();
    let found = f.load(task.reply().at(task.arg(1)));
    f.when(task.arg(0).ne(0), || f.store(task.reply().at(task.arg(1)), task.arg(2)));
    task.set_reply_len(task.arg(3));
    task.finish(found);
}

fn spec(shape: Shape, slots: u32) -> Spec {
    shape
        .spec(slots, 2)
        .payload(MOST)
        .reply(REPLY)
        .handler_at(op(ECHO), "echo", Handler::lane_wide(echo))
        .handler_at(op(WIDE_ECHO), "wide_echo", Handler::group_wide(wide_echo))
        .handler_at(op(PEEK), "peek", Handler::lane_wide(peek))
        .handler_at(op(SAY), "say", Handler::lane_wide(say))
}

/// Bytes that are different for each number, and none of which is zero.
fn bytes_of(number: u32, len: usize) -> Vec<u8> {
    (0..len as u32).map(|k| (number.wrapping_mul(31).wrapping_add(k * 7) % 255 + 1) as u8).collect()
}

/// The reply to an echo of these bytes.
fn echo_of(bytes: &[u8]) -> Vec<u8> {
    let words = bytes.chunks(4).zip(0..).flat_map(|(chunk, at)| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        changed(u32::from_le_bytes(word), at).to_le_bytes()
    });
    words.take(bytes.len()).collect()
}

/// Runs an echo, and checks its result and its reply.
fn check_echo(producer: &mut Producer, code: u32, bytes: &[u8], what: &str) {
    let mut ticket = producer.submit(Task::new(op(code)).bytes(bytes)).expect("there is room");
    let mut reply = [0xee; REPLY as usize];
    assert_eq!(ticket.wait_bytes(soon(), &mut reply), Ok(bytes.len()), "{what}");
    assert_eq!(reply[..bytes.len()], echo_of(bytes), "{what}");
    assert!(reply[bytes.len()..].iter().all(|byte| *byte == 0xee), "{what}: only the reply is copied");
    assert_eq!(ticket.result(), Ok(bytes.len() as u32), "{what}");
}

/// Catches a length that counts words instead of bytes or the other way round, a payload that is copied only in part,
/// and a place that overlaps its neighbour.
fn payloads_of_every_length_arrive_whole(on: &On) {
    for shape in shapes(on, ALL) {
        let session = launch(on, &spec(shape, 16));
        let mut producer = session.producer(0).unwrap();
        for len in [0, 1, 2, 3, 4, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65, MOST - 1, MOST] {
            for code in [ECHO, WIDE_ECHO] {
                let what = format!("{shape}: {len} bytes, opcode {code}");
                check_echo(&mut producer, code, &bytes_of(len, len as usize), &what);
            }
        }
        // Many at once, of different lengths, in neighbouring slots.
        let payloads: Vec<Vec<u8>> = (0..16).map(|k| bytes_of(k, (k * 13 % (MOST + 1)) as usize)).collect();
        let task = |(k, bytes)| Task::new(op([ECHO, WIDE_ECHO][k % 2])).bytes(bytes);
        for _ in 0..20 {
            let tasks: Vec<PayloadTask<'_>> = payloads.iter().map(|p| &p[..]).enumerate().map(task).collect();
            let mut span = producer.submit_all(tasks.iter().copied()).unwrap();
            assert_eq!(span.wait(soon()).unwrap().done, 16, "{shape}");
            for (k, bytes) in payloads.iter().enumerate() {
                let mut reply = [0; REPLY as usize];
                assert_eq!(span.reply_bytes(k, &mut reply), Some(Ok(bytes.len())), "{shape}: task {k}");
                assert_eq!(reply[..bytes.len()], echo_of(bytes), "{shape}: task {k}");
            }
            assert_eq!(span.reply_bytes(16, &mut []), None);
        }
        // A payload of words is the same as one of bytes.
        let mut ticket = producer.submit(Task::new(op(ECHO)).words(&[5, 6, 7])).unwrap();
        let mut reply = [0; 8];
        assert_eq!(ticket.wait_words(soon(), &mut reply), Ok(3), "{shape}");
        assert_eq!(reply[..4], [changed(5, 0), changed(6, 1), changed(7, 2), 0], "{shape}");
        assert_eq!(ticket.reply_words(&mut reply[..1]), Ok(3), "a short buffer gets the beginning");
        // Tasks without a payload run beside them, and so do light ones.
        assert_eq!(run(&mut producer, Task::new(op(ECHO))), Ok(0), "{shape}");
        assert_eq!(run(&mut producer, add(3, 7)), Ok(0), "{shape}");
    }
}

/// Catches a kernel without a choice of handlers that runs such tasks where no window has brought their payloads.
fn a_fused_kernel_has_payloads_too(on: &On) {
    for shape in shapes(on, &[near(1), near(32), far(1), far(32)]) {
        let bare = shape.bare(16, 2).payload(MOST).reply(REPLY).body(SlotBody::Fused);
        let session = launch(on, &bare.handler_at(op(ECHO), "echo", Handler::lane_wide(echo)));
        let mut producer = session.producer(0).unwrap();
        for len in [0, 1, 17, MOST as usize] {
            check_echo(&mut producer, ECHO, &bytes_of(4, len), &format!("{shape}: {len} bytes"));
        }
    }
}

/// Catches a payload that is cut off silently, and a part of a batch that is submitted although another is refused.
fn payloads_that_do_not_fit_are_refused(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &spec(shape, 16));
        let mut producer = session.producer(0).unwrap();
        let long = vec![1; MOST as usize + 1];
        let refused = SubmitError::PayloadTooLong { bytes: u64::from(MOST) + 1, most: MOST };
        let task = Task::new(op(ECHO));
        assert_eq!(producer.submit(task.bytes(&long)).unwrap_err(), refused, "{shape}");
        assert_eq!(producer.check_task(&task.bytes(&long)), Err(refused), "{shape}");
        let batch = [task.bytes(b"fits"), task.bytes(&long)];
        assert_eq!(producer.submit_all(batch).unwrap_err(), refused, "{shape}");
        assert_eq!(
            producer.submit(task.words(&[0; 26])).unwrap_err(),
            SubmitError::PayloadTooLong { bytes: 104, most: MOST },
            "{shape}"
        );
        assert_eq!(
            refused.to_string(),
            "a payload of 103 bytes cannot be submitted: it may have at most 102 (`Spec::payload`)"
        );
        check_echo(&mut producer, ECHO, &long[1..], "the longest payload that fits");
        counted(&session, 1);
        drop((producer, session));

        let session = launch(on, &shape.spec(16, 2));
        let mut producer = session.producer(0).unwrap();
        let none = SubmitError::NoPayloads { bytes: 1 };
        assert_eq!(producer.submit(add(1, 0).bytes(&[1])).unwrap_err(), none, "{shape}");
        let mut ticket = producer.submit(add(1, 0).bytes(&[])).unwrap();
        assert_eq!(ticket.wait_bytes(soon(), &mut [0; 8]), Ok(0), "there are no replies");
        assert_eq!(ticket.result(), Ok(0));
    }
}

/// Catches an index that is checked against the place or the whole buffer instead of the payload, or after it was
/// added up.
fn a_task_reads_nothing_beyond_its_own_payload(on: &On) {
    for shape in shapes(on, ALL) {
        let tenant = |id| Tenant::new(id).producers(1);
        let session = launch(on, &spec(shape, 16).tenant(tenant(0)).tenant(tenant(1)));
        let (mut one, mut other) = (session.producer(0).unwrap(), session.producer(1).unwrap());
        // The neighbour's tickets are held, so that its payloads stay where they are.
        let secret = bytes_of(77, MOST as usize);
        let held: Vec<_> =
            (0..8).map(|_| other.submit(Task::new(op(ECHO)).bytes(&secret)).unwrap()).collect();
        for len in [0u32, 1, 4, 6, 40] {
            let bytes = bytes_of(3, len as usize);
            let words = len.div_ceil(4);
            let mut look = |at: u32, byte: u32| {
                let task = Task::new(op(PEEK)).args([at, byte]).bytes(&bytes);
                run(&mut one, task)
            };
            let stride = MOST.div_ceil(16) * 4;
            for at in
                [words, words + 1, stride, stride + 1, 16 * stride, 1 << 30, u32::MAX, stride.wrapping_neg()]
            {
                let what = format!("{shape}: word {at} of {len} bytes");
                assert_eq!(look(at, 9), fault(FaultCode::REGION), "{what}");
                assert_eq!(look(at, 0), fault(FaultCode::REGION), "{what}");
            }
            if let Some(last) = words.checked_sub(1) {
                let chunk = bytes.chunks(4).last().unwrap();
                for byte in 0..5 {
                    let wanted = chunk.get(byte as usize).copied().unwrap_or(0);
                    assert_eq!(look(last, byte), Ok(wanted.into()), "{shape}: byte {byte} of word {last}");
                }
            }
        }
        drop(held);
    }
}

fn a_shorter_payload_hides_a_longer_one_before_it(on: &On) {
    for shape in shapes(on, ALL) {
        let session = launch(on, &spec(shape, 4));
        let mut producer = session.producer(0).unwrap();
        for round in 0..6 {
            // Every slot of every stripe has a long payload, and then a short one or none.
            let count = producer.largest_batch() as usize;
            let long = bytes_of(round, MOST as usize);
            let mut span = producer.submit_all(vec![Task::new(op(ECHO)).bytes(&long); count]).unwrap();
            assert_eq!(span.wait(soon()).unwrap().done as usize, count, "{shape}");
            drop(span);
            let peek = |at: u32| Task::new(op(PEEK)).args([at, 9]).bytes(&long[..5]);
            let tasks: Vec<_> = (0..count).map(|k| peek([1, 2, 3, 25][k % 4])).collect();
            let mut span = producer.submit_all(tasks).unwrap();
            span.wait(soon()).unwrap();
            for (k, end) in span.results().enumerate() {
                let wanted = if k % 4 == 0 { Ok(long[4].into()) } else { fault(FaultCode::REGION) };
                assert_eq!(end, wanted, "{shape}: task {k}");
            }
            drop(span);
            let mut span = producer.submit_all(vec![Task::new(op(PEEK)).args([0, 9]); count]).unwrap();
            span.wait(soon()).unwrap();
            assert!(span.results().all(|end| end == fault(FaultCode::REGION)), "{shape}: no payload at all");
        }
    }
}

/// Catches a length that outlives its task, and words that a task has not written.
fn a_reply_is_never_that_of_an_earlier_task(on: &On) {
    for shape in shapes(on, ALL) {
        let session = launch(on, &spec(shape, 4));
        let mut producer = session.producer(0).unwrap();
        for round in 1..6 {
            let count = producer.largest_batch() as usize;
            let long = bytes_of(round, MOST as usize);
            let mut span = producer.submit_all(vec![Task::new(op(ECHO)).bytes(&long); count]).unwrap();
            assert_eq!(span.wait(soon()).unwrap().done as usize, count, "{shape}");
            drop(span);
            // These write one word of a reply of five, or no reply, or end with a fault, or are light.
            let tasks: Vec<Task> = (0..count)
                .map(|k| match k % 4 {
                    0 => Task::new(op(SAY)).args([1, 2, round, 20]),
                    1 => Task::new(op(SAY)).args([1, 2, round, 0]),
                    2 => Task::new(op(PEEK)).args([0, 9]),
                    _ => add(1, 0),
                })
                .collect();
            let mut span = producer.submit_all(tasks).unwrap();
            span.wait(soon()).unwrap();
            for k in 0..count {
                let mut reply = [0xeeee_eeee; 8];
                let len = span.reply_words(k, &mut reply);
                match k % 4 {
                    0 => {
                        assert_eq!(len, Some(Ok(5)), "{shape}");
                        assert_eq!(reply[..5], [0, 0, round, 0, 0], "{shape}");
                        assert_eq!(span.result(k), Some(Ok(0)), "a handler finds zeros in its reply");
                    }
                    2 => assert_eq!(len, Some(fault(FaultCode::REGION).map(|_| 0)), "{shape}"),
                    _ => assert_eq!(len, Some(Ok(0)), "{shape}: task {k}"),
                }
            }
        }
        // A task that never ran has no reply.
        session.set_mask(0, 0).unwrap();
        let mut ticket = producer.submit(Task::new(op(ECHO)).bytes(b"late")).unwrap();
        assert_eq!(ticket.reply_bytes(&mut [0; 8]), Err(pelton::TaskError::Late), "{shape}");
        ticket.cancel();
        session.set_mask(0, u32::MAX).unwrap();
        assert_eq!(
            ticket.wait_bytes(soon(), &mut [0; 8]),
            Err(pelton::TaskError::Cancelled { steps: 0 }),
            "{shape}"
        );
    }
}

/// Catches a place that is used again as soon as its task has ended.
fn replies_stay_while_their_tickets_are_held(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &spec(shape, 16));
        let mut producer = session.producer(0).unwrap();
        let mut held = Vec::new();
        let full = loop {
            let bytes = bytes_of(held.len() as u32, 1 + held.len() % MOST as usize);
            match producer.submit(Task::new(op(ECHO)).bytes(&bytes)) {
                Ok(mut ticket) => {
                    ticket.wait(soon()).unwrap();
                    held.push((bytes, ticket));
                }
                Err(error) => break error,
            }
        };
        assert!(matches!(full, SubmitError::Full { .. }), "{shape}: {full}");
        assert!(held.len() >= 16, "{shape}");
        for (bytes, ticket) in &mut held {
            let mut reply = [0; REPLY as usize];
            assert_eq!(ticket.reply_bytes(&mut reply), Ok(bytes.len()), "{shape}");
            assert_eq!(reply[..bytes.len()], echo_of(bytes), "{shape}");
        }
        session.stop().unwrap();
        let (bytes, ticket) = &mut held[3];
        let mut reply = [0; REPLY as usize];
        assert_eq!(ticket.reply_bytes(&mut reply), Ok(bytes.len()), "{shape}: after the session has ended");
        assert_eq!(reply[..bytes.len()], echo_of(bytes), "{shape}");
    }
}

fn replies_that_do_not_fit_are_faults(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &spec(shape, 16));
        let mut producer = session.producer(0).unwrap();
        let words = REPLY.div_ceil(4);
        let mut say = |at: u32, len: u32| run(&mut producer, Task::new(op(SAY)).args([1, at, 7, len]));
        assert_eq!(say(words - 1, REPLY), Ok(0), "{shape}");
        for (at, len) in [(words, 4), (words + 1, 4), (u32::MAX, 4), (0, REPLY + 1), (0, u32::MAX)] {
            assert_eq!(say(at, len), fault(FaultCode::REGION), "{shape}: word {at}, length {len}");
        }
    }
}

/// Every word is checked in the kernel, by a sum that the host knows, and on the host, by the reply.
fn a_million_words_go_in_and_come_back(on: &On) {
    const WORDS: usize = 25;
    // The interpreter takes a microsecond or so for each instruction.
    let wanted: usize = if on.caps().name.starts_with("reference") { 20_000 } else { 1_000_000 };
    for shape in shapes(on, &[near(1), far(32)]) {
        let session = launch(on, &spec(shape, 256));
        let mut producer = session.producer(0).unwrap();
        let (mut seen, mut next) = (0, 0u32);
        while seen < wanted {
            let words: Vec<u32> = (0..64 * WORDS as u32).map(|k| changed(next.wrapping_add(k), 5)).collect();
            next = next.wrapping_add(words.len() as u32);
            let tasks = words.chunks(WORDS).map(|words| Task::new(op(ECHO)).words(words));
            let mut span = producer.submit_all(tasks).unwrap();
            assert_eq!(span.wait(soon()).unwrap().done, 64, "{shape}");
            for (k, words) in words.chunks(WORDS).enumerate() {
                let mut reply = [0; WORDS];
                assert_eq!(span.reply_words(k, &mut reply), Some(Ok(WORDS)), "{shape}");
                let wanted = words.iter().zip(0..).map(|(word, at)| changed(*word, at));
                assert!(reply.into_iter().eq(wanted), "{shape}: task {k}");
            }
            seen += words.len();
        }
    }
}

/// Catches a payload that is copied to the place of another task, and a reply that the next pass overwrites.
fn drained_batches_bring_and_reply_in_any_order(on: &On) {
    for (lanes, claim) in [(1, Claim::Owned), (8, Claim::PRIORITY), (32, Claim::Owned), (32, Claim::PRIORITY)]
    {
        let spec = spec(far(lanes), 32).claim(claim);
        let mut drain = Drain::new(on, &spec).unwrap();
        // One task, a part of a pass, exactly one pass, and several passes, in one batch and in three.
        for (round, count) in [1usize, 7, 32, 33, 100, 3].into_iter().enumerate() {
            let payloads: Vec<Vec<u8>> =
                (0..count).map(|k| bytes_of(k as u32 ^ 5, (k * 37 + round) % (MOST as usize + 1))).collect();
            let mut batches = vec![drain.batch().unwrap(), Batch::new(), drain.batch().unwrap()];
            batches.truncate(if round % 2 == 0 { 1 } else { 3 });
            let share = count.div_ceil(batches.len());
            for (k, bytes) in payloads.iter().enumerate() {
                let priority = Priority::ALL[if claim == Claim::Owned { 2 } else { k % 5 }];
                let task = Task::new(op([ECHO, WIDE_ECHO][k % 2])).priority(priority);
                batches[k / share].push(0, task.bytes(bytes)).unwrap();
            }
            let back = drain.run_all(&batches).unwrap();
            for (k, bytes) in payloads.iter().enumerate() {
                let what = format!("{lanes} lanes, {count} tasks, task {k}");
                let mut reply = [0; REPLY as usize];
                assert_eq!(back.reply_bytes(k, &mut reply), Some(Ok(bytes.len())), "{what}");
                assert_eq!(reply[..bytes.len()], echo_of(bytes), "{what}");
                let mut words = [0; REPLY as usize / 4];
                assert_eq!(back.reply_words(k, &mut words), Some(Ok(bytes.len().div_ceil(4))), "{what}");
                let first = u32::from_le_bytes(reply[..4].try_into().unwrap());
                assert!(bytes.len() < 4 || words[0] == first, "{what}");
            }
            assert_eq!(back.reply_bytes(count, &mut []), None);
        }
        let mut batch = Batch::new();
        batch.push(0, Task::new(op(ECHO)).bytes(&[0; MOST as usize + 1])).unwrap();
        let long = SubmitError::PayloadTooLong { bytes: u64::from(MOST) + 1, most: MOST };
        assert!(matches!(drain.run(&batch), Err(Error::Submit(error)) if error == long));
        let huge = vec![0; Spec::MAX_PLACE_BYTES as usize + 1];
        assert!(matches!(
            batch.push(0, Task::new(op(ECHO)).bytes(&huge)),
            Err(SubmitError::PayloadTooLong { .. })
        ));
    }
}

/// Catches a slot of a batch in which the task of another tenant finds what the slot held before.
fn a_drained_slot_shows_nothing_of_another_tenant(on: &On) {
    for lanes in [1, 8] {
        let spec = spec(far(lanes), 16).tenant(Tenant::new(0)).tenant(Tenant::new(1));
        let mut drain = Drain::new(on, &spec).unwrap();
        let secret = bytes_of(9, MOST as usize);
        for _ in 0..3 {
            let mut batch = drain.batch().unwrap();
            for _ in 0..16 {
                batch.push(0, Task::new(op(ECHO)).bytes(&secret)).unwrap();
            }
            assert_eq!(drain.run(&batch).unwrap().statistics().done, 16);
            batch.clear();
            for k in 0..16 {
                let task = match k % 4 {
                    0 => Task::new(op(PEEK)).args([0, 9]).bytes(&[]),
                    1 => Task::new(op(PEEK)).args([1, 9]).bytes(&[1, 2, 3]),
                    2 => Task::new(op(SAY)).args([0, 3, 0, REPLY]).bytes(&[]),
                    _ => add(1, 0).bytes(&[]),
                };
                batch.push(1, task).unwrap();
            }
            let back = drain.run(&batch).unwrap();
            for k in 0..16 {
                let mut reply = [1; REPLY as usize];
                let found = back.reply_bytes(k, &mut reply);
                match k % 4 {
                    0 | 1 => assert_eq!(found, Some(fault(FaultCode::REGION).map(|_| 0)), "{lanes} lanes"),
                    2 => {
                        assert_eq!(found, Some(Ok(REPLY as usize)), "{lanes} lanes");
                        assert_eq!(reply, [0; REPLY as usize], "{lanes} lanes");
                    }
                    _ => assert_eq!(found, Some(Ok(0)), "{lanes} lanes"),
                }
            }
        }
    }
}

/// Catches names and ops that mean something else where there are no payloads, or nothing at all.
fn handlers_that_cannot_have_payloads_are_refused(on: &On) {
    let refused = |spec: Spec| match Session::launch(on, &spec) {
        Err(Error::Refused(error)) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let text = |text: &str| Spec::default().handler("h", Handler::from_text(text));
    let with = |body: &str| {
        let head = "import fn payload_len() -> u32\nimport fn reply_len(%n: u32)\n\
                    buffer payload: [u32; ?] global read\nbuffer reply: [u32; ?] global read_write\n";
        text(&format!("{head}fn h() -> u32 {{\n{body}\nreturn 0\n}}"))
    };
    assert!(refused(with("")).contains("it imports `payload_len`, and tasks of this kernel have no payload"));
    assert!(refused(with("").payload(4)).contains("it imports `reply_len`"));
    let atomic = with("%x = atomic_add relaxed device @reply[0], 1").payload(4).reply(4);
    assert!(refused(atomic).contains("`atomic_add` cannot reach a payload or a reply"));
    let lone =
        text("buffer payload: [u32; ?] global read\nfn h() -> u32 {\n%x = load @payload[0]\nreturn %x\n}");
    assert!(refused(lone.clone()).contains("tasks of this kernel have no payload"));
    let written = text(
        "buffer payload: [u32; ?] global read_write\nfn h() -> u32 {\nstore @payload[0], 1\nreturn 0\n}",
    );
    assert!(refused(written.payload(4)).contains("must be declared as `[u32; ?] global read`"));
    let region = pelton::Region::new("payload", pelton::ir::types::Type::U32, 16);
    assert!(refused(lone.clone().payload(4).region(region.clone())).contains("the name is taken"));
    // Where tasks have no payload, the name is as good as any other.
    drop(launch(on, &lone.region(region)));
    let large = Session::launch(on, &Spec::default().reply(Spec::MAX_PLACE_BYTES + 1)).map(drop);
    assert!(matches!(large, Err(Error::Refused(AssembleError::Size { .. }))), "{large:?}");
}
