//! What resumable tasks carry with them: payloads and replies.

use pelton::kernel::{Handler, HandlerBody};
use pelton::{Drain, Spec, Task};

use crate::{LONG, devices, everywhere};

#[test]
fn payloads_and_replies_live_as_long_as_the_task() {
    // Adds one word of the payload to the reply in each step, and waits a step between two words.
    let sums = |group: bool| {
        let body = |task: &HandlerBody<'_>| {
            let (f, at) = (task.body(), task.frame_word());
            let now = at.load();
            let words = (task.payload_len() + 3) >> 2;
            let words = if group { f.group_broadcast(words, 0) } else { words };
            let first = f.lane().eq(0) | f.lit(!group);
            f.when(now.lt(words), || {
                f.when(first, || {
                    let sum = f.load(task.reply().at(0)) + f.load(task.payload().at(now));
                    f.store(task.reply().at(0), sum);
                    f.store(task.reply().at(1), now + 1);
                });
                task.set_reply_len(8u32);
                at.store(now + 1);
                task.yield_now();
            });
            task.finish(words);
        };
        match group {
            false => Handler::lane_wide(|task| body(&task)),
            true => Handler::group_wide(|group| body(&group)),
        }
    };
    let spec = |spec: Spec| {
        let adds = Handler::lane_wide(|task| {
            task.body().store(task.reply().at(0), task.payload_len());
            task.set_reply_len(4u32);
            task.finish(0);
        });
        spec.cells(16)
            .payload(64)
            .reply(16)
            .handler("lane", sums(false))
            .handler("group", sums(true))
            .handler("plain", adds)
    };
    let words: Vec<u32> = (1..=16).collect();
    let expected = |count: usize| (words[..count].iter().sum::<u32>(), count as u32);
    everywhere(spec, |session, shape| {
        let op = |name| session.opcode(name).unwrap();
        let mut producer = session.producer(0).unwrap().patience(LONG);
        for lap in 0..40usize {
            let count = lap % 17;
            let name = ["lane", "group", "plain"][lap % 3];
            let mut ticket = producer.submit(Task::new(op(name)).words(&words[..count])).unwrap();
            let mut reply = [0; 4];
            let len = ticket.wait_words(LONG, &mut reply).unwrap();
            match (name, count) {
                ("plain", _) => assert_eq!((len, reply[0]), (1, 4 * count as u32), "{shape}"),
                (_, 0) => assert_eq!(len, 0, "{shape}: no reply of an earlier task"),
                _ => assert_eq!((len, (reply[0], reply[1])), (2, expected(count)), "{shape} {name}"),
            }
        }
    });
    for device in devices() {
        let spec = spec(Spec::default());
        let mut drain = Drain::new(&device, &spec).unwrap();
        let mut batch = drain.batch().unwrap();
        for k in 0..100usize {
            let op = spec.opcode(["lane", "group"][k % 2]).unwrap();
            batch.push(0, Task::new(op).words(&words[..k % 17])).unwrap();
        }
        for _ in 0..2 {
            let results = drain.run(&batch).unwrap();
            for k in 0..100usize {
                let mut reply = [0; 4];
                let len = results.reply_words(k, &mut reply).unwrap().unwrap();
                let right = if k % 17 == 0 { (0, (0, 0)) } else { (2, expected(k % 17)) };
                assert_eq!((len, (reply[0], reply[1])), right, "{} task {k}", device.caps().name);
            }
        }
    }
}
