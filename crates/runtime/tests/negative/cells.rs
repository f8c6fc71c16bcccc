//! Tasks in cells: slots that name a wrong cell, cells that are used again in any order, runs that follow each other,
//! rights, futures and frames.

use std::future::Future;

use pelton::protocol::FaultCode;
use pelton::{
    Aim, Deadline, Handler, Opcode, Placement, Producer, Session, Spec, SubmitError, Task, TaskError, Tenant,
    Ticket,
};

use crate::common::*;
use crate::futures::block_on;

pub(crate) const TESTS: &[Test] = named![
    a_slot_that_names_a_wrong_cell_is_malformed,
    a_span_may_end_where_the_next_use_begins,
    tasks_go_on_in_the_next_run,
    a_dropped_producer_leaves_its_cells_to_the_next,
    a_frame_ends_where_its_handler_says,
    marks_stay_until_another_group_has_followed_them,
    the_number_of_a_use_may_wrap_around,
    a_task_that_never_began_has_begun_no_step,
    a_ticket_knows_where_its_task_went,
    masks_and_quotas_hold_for_tasks_in_cells,
    futures_wait_for_cells,
];

pub(crate) const CELLS: u32 = 4;

/// The opcodes of the handlers.
const WAITS: u32 = 9;
const COUNTS: u32 = 10;
const WIDE: u32 = 11;
const LOOPS: u32 = 12;
pub(crate) const LATER: u32 = 13;

/// Counts its steps in the element of `data` that its first argument names, waits for the host once, and gives its
/// second argument.
fn waits() -> Handler {
    Handler::lane_wide(|task| {
        task.step(|| {
            task.atomic_add(task.arg(0), 1u32);
            task.park_then(1);
        });
        task.atomic_add(task.arg(0), 1u32);
        task.finish(task.arg(1));
    })
}

/// Yields as often as its first argument says, and gives its second argument.
fn counts() -> Handler {
    Handler::lane_wide(|task| {
        let (f, done) = (task.body(), task.frame_word());
        let now = done.load();
        done.store(now + 1);
        f.when(now.lt(task.arg(0)), || task.yield_now());
        task.finish(task.arg(1));
    })
}

/// Counts its steps in the element of `data` that its first argument names and yields until the element after it is
/// not 0. Then it waits for the host once, and ends.
fn later() -> Handler {
    Handler::lane_wide(|task| {
        let f = task.body();
        task.step(|| {
            task.atomic_add(task.arg(0), 1u32);
            let told = task.atomic_add(task.arg(0) + 1, 0u32);
            f.choose(told.eq(0), || task.yield_now(), || task.park_then(1));
        });
        task.finish(1);
    })
}

/// Adds to an element of `data` with all lanes together.
fn wide() -> Handler {
    Handler::group_wide(|group| {
        let f = group.body();
        f.when(f.lane().eq(0), || {
            group.atomic_add(group.arg(1), group.arg(0));
        });
        group.finish(0);
    })
}

/// Adds to an element of `data` in a loop, so that no poller runs it.
fn loops() -> Handler {
    Handler::lane_wide(|task| {
        let f = task.body();
        f.range((f.lit(0), task.arg(0), f.lit(1)), (), |_, _, ()| {
            task.atomic_add(task.arg(1), 1u32);
        });
        task.finish(0);
    })
}

pub(crate) fn spec(shape: Shape) -> Spec {
    shape
        .spec(16, 2)
        .producers(2)
        .cells(CELLS)
        .handler_at(op(WAITS), "waits", waits())
        .handler_at(op(COUNTS), "counts", counts())
        .handler_at(op(WIDE), "wide", wide())
        .handler_at(op(LOOPS), "loops", loops())
        .handler_at(op(LATER), "later", later())
}

pub(crate) fn waiting(at: u32, gives: u32) -> Task {
    Task::new(op(WAITS)).args([at, gives])
}

pub(crate) fn counting(times: u32, gives: u32) -> Task {
    Task::new(op(COUNTS)).args([times, gives])
}

/// Waits until an element of `data` has at least this value, and returns it.
pub(crate) fn wait_for(session: &Session, at: u32, least: u32) -> u32 {
    let mut found = 0;
    until("an element changes", || {
        found = session.view::<u32>(0, "data")?.read(at as usize, 1)?[0];
        Ok(found >= least)
    });
    found
}

/// Lets everything be applied that was asked before: asks are applied in order, and this asks for something that can be
/// seen. Every task that is ready has its turn meanwhile.
pub(crate) fn settle(session: &Session, other: &mut Producer) {
    let before = wait_for(session, 60, 0);
    let mut ticket = other.submit(waiting(60, 0)).unwrap();
    wait_for(session, 60, before + 1);
    ticket.cancel();
    assert_eq!(ticket.wait(soon()), Err(TaskError::Cancelled { steps: 1 }));
    for _ in 0..4 {
        assert_eq!(run(other, counting(20, 5)), Ok(5));
    }
}

/// Catches a cell of another producer that is taken over, a task that two cells run, a cell number that reaches beyond
/// the cells, and a task that runs although its slot is malformed.
fn a_slot_that_names_a_wrong_cell_is_malformed(on: &On) {
    for shape in shapes(on, ALL) {
        let session = launch(on, &spec(shape));
        let mut producers = [0, 1].map(|_| session.producer(0).unwrap().patience(soon()));
        let mut parked: Vec<Ticket> =
            producers.iter_mut().map(|producer| producer.submit(waiting(1, 7)).unwrap()).collect();
        wait_for(&session, 1, 2);
        let before = data(&session);
        let fence = Task::new(Opcode::BATCH_FENCE).args([0, 3]);
        let plain = [
            add(1, 2),
            Task::new(op(WIDE)).args([1, 2]),
            Task::new(op(LOOPS)).args([3, 2]),
            Task::new(Opcode::STORE_U32).args([9, 2]),
            fence,
        ];
        let resumable = [waiting(2, 0), counting(3, 0)];
        // None, both cells that are in use, one beyond the last, and numbers that would wrap around.
        let wrong = [None, Some(0), Some(CELLS), Some(2 * CELLS), Some((1 << 24) - 2), Some(1 << 16)];
        for (producer, number) in producers.iter_mut().zip([0, 1u32]) {
            let others: Vec<Option<u32>> = (1..CELLS).map(|k| Some((1 - number) * CELLS + k)).collect();
            for cell in wrong.into_iter().chain(others) {
                for task in resumable {
                    let end = producer.submit_with_cell(task, cell).unwrap().wait(soon());
                    assert_eq!(end, fault(FaultCode::MALFORMED), "{shape}: {} in {cell:?}", task.op);
                }
                for task in plain.iter().filter(|_| cell.is_some()) {
                    let end = producer.submit_with_cell(*task, cell).unwrap().wait(soon());
                    assert_eq!(end, fault(FaultCode::MALFORMED), "{shape}: {} in {cell:?}", task.op);
                }
            }
            // The producer's own free cell is wrong too for a task that needs none.
            for task in plain {
                let end = producer.submit_with_cell(task, Some(number * CELLS + 1)).unwrap().wait(soon());
                assert_eq!(end, fault(FaultCode::MALFORMED), "{shape}: {}", task.op);
            }
        }
        assert_eq!(data(&session), before, "{shape}: something ran");
        assert_eq!(session.epoch().unwrap(), 0, "{shape}: a fence ended");
        for ticket in &mut parked {
            assert_eq!(ticket.result(), Err(TaskError::Late), "{shape}");
            ticket.resume();
            assert_eq!(ticket.wait(soon()), Ok(7), "{shape}");
        }
        drop(parked);
        for producer in &mut producers {
            let mut span = producer.submit_all([counting(5, 8); CELLS as usize]).unwrap();
            assert_eq!(span.wait(soon()).unwrap().done, CELLS, "{shape}: a cell is lost");
            assert_eq!(run(producer, add(0, 2)), Ok(0), "{shape}");
        }
    }
}

/// Catches cells that are given up together as if they were neighbours, although one is the last cell and the other
/// the first cell in its next use.
fn a_span_may_end_where_the_next_use_begins(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &spec(shape));
        let mut producer = session.producer(0).unwrap();
        let mut all: Vec<Ticket> = (0..CELLS).map(|k| producer.submit(counting(0, k)).unwrap()).collect();
        for (ticket, k) in all.iter_mut().zip(0..) {
            assert_eq!(ticket.wait(soon()), Ok(k), "{shape}");
        }
        let last = all.pop();
        // The first cell is used once more than the last one, and is free before it.
        drop(all.remove(0));
        assert_eq!(run(&mut producer, counting(1, 9)), Ok(9), "{shape}");
        let two = producer.submit_all([counting(1, 0); 2]);
        assert_eq!(two.err(), Some(SubmitError::NoCells { free: 1, wanted: 2 }), "{shape}");
        drop(last);
        for _ in 0..3 {
            let mut span = producer.submit_all([counting(1, 3), counting(2, 4)]).unwrap();
            assert_eq!(span.wait(soon()).unwrap().done, 2, "{shape}");
            assert_eq!(span.results().collect::<Vec<_>>(), [Ok(3), Ok(4)], "{shape}");
        }
        drop(all);
        let mut span = producer.submit_all([counting(1, 3); CELLS as usize]).unwrap();
        assert_eq!(span.wait(soon()).unwrap().done, CELLS, "{shape}");
    }
}

/// Catches a task that a group had at home when its run ended and that the next run does not find, an ask that neither
/// run applies, and a frame that is lost.
fn tasks_go_on_in_the_next_run(on: &On) {
    let times = if on.caps().name == "cpu" { 2000 } else { 100 };
    for shape in shapes(on, ALL) {
        let session = launch(on, &spec(shape).cells(64));
        let mut producer = session.producer(0).unwrap().patience(soon());
        for lap in 0..3 {
            let mut span = producer.submit_all((0..15).map(|k| counting(times, k))).unwrap();
            let mut parked: Vec<Ticket> = (0..4).map(|k| producer.submit(waiting(30, k)).unwrap()).collect();
            parked[0].resume();
            session.hand_over(&session.spec(), soon()).unwrap();
            parked[1].resume();
            session.hand_over(&session.spec(), soon()).unwrap();
            // Each of the four has taken its first step, and two have gone on.
            wait_for(&session, 30, 6 + 7 * lap);
            parked[2].resume();
            parked[3].cancel();
            session.hand_over(&session.spec(), soon()).unwrap();
            for (ticket, k) in parked.iter_mut().zip(0..3) {
                assert_eq!(ticket.wait(soon()), Ok(k), "{shape}");
            }
            assert_eq!(parked[3].wait(soon()), Err(TaskError::Cancelled { steps: 1 }), "{shape}");
            assert_eq!(span.wait(soon()).unwrap().done, 15, "{shape}");
            assert!(span.results().eq((0..15).map(Ok)), "{shape}");
        }
        session.quiesce(soon()).unwrap();
    }
}

/// Catches a producer that is taken again and uses a cell whose task has not ended, or loses cells of tickets that were
/// dropped after the producer.
fn a_dropped_producer_leaves_its_cells_to_the_next(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &spec(shape).producers(1));
        let mut producer = session.producer(0).unwrap();
        let mut kept = producer.submit(waiting(3, 6)).unwrap();
        let dropped = producer.submit(waiting(3, 6)).unwrap();
        wait_for(&session, 3, 2);
        drop(producer);
        let mut producer = session.producer(0).unwrap();
        let mut span = producer.submit_all([counting(3, 1); CELLS as usize - 2]).unwrap();
        assert_eq!(span.wait(soon()).unwrap().done, CELLS - 2, "{shape}");
        let full = producer.submit(counting(0, 0));
        assert_eq!(full.err(), Some(SubmitError::NoCells { free: 0, wanted: 1 }), "{shape}");
        // Nobody waits for this task any more, and its cell is free when it has ended.
        dropped.resume_generation(0);
        drop(dropped);
        producer.set_patience(soon());
        assert_eq!(run(&mut producer, counting(2, 2)), Ok(2), "{shape}");
        producer.set_patience(Deadline::Now);
        assert_eq!(kept.result(), Err(TaskError::Late), "{shape}");
        kept.resume();
        assert_eq!(kept.wait(soon()), Ok(6), "{shape}");
        drop((kept, span));
        let mut span = producer.submit_all([counting(3, 1); CELLS as usize]).unwrap();
        assert_eq!(span.wait(soon()).unwrap().done, CELLS, "{shape}");
    }
}

/// Keeps its second argument in its frame while it waits, then stores its fourth argument at the word of its frame that
/// its third argument names, and gives the sum of its own words and of that one.
const FRAMED: &str = "
    import fn park()
    buffer arg: [u32; 12] global read
    buffer data: [u32; ?] global read_write
    buffer frame: [u32; 3] global read_write
    fn framed() -> u32 {
      %turn = load @frame[0]
      %first = eq %turn, 0
      if %first {
        store @frame[0], 1
        %mine = load @arg[1]
        store @frame[1], %mine
        store @frame[2], %mine
        call park()
        %at = load @arg[0]
        %old = atomic_add relaxed device @data[%at], 1
        yield
      }
      %where = load @arg[2]
      %what = load @arg[3]
      store @frame[%where], %what
      %there = load @frame[%where]
      %kept = load @frame[1]
      %kept2 = load @frame[2]
      %sum = add %kept, %kept2
      %all = add %sum, %there
      return %all
    }";

/// Catches an index that is checked against the longest frame, or not at all, and frames that overlap.
fn a_frame_ends_where_its_handler_says(on: &On) {
    let framed = Handler::from_text(FRAMED);
    let long = Handler::lane_wide(|task| {
        let words: Vec<_> = (0..8).map(|_| task.frame_word()).collect();
        task.step(|| {
            words.iter().zip(1u32..).for_each(|(word, k)| word.store(task.arg(1) + k));
            task.atomic_add(task.arg(0), 1u32);
            task.park_then(1);
        });
        task.finish(words.iter().fold(task.body().lit(0), |sum, word| sum + word.load()));
    });
    for shape in shapes(on, ALL) {
        let spec = shape.bare(16, 2).cells(8).handler_at(op(20), "framed", framed.clone());
        let spec = spec.handler_at(op(21), "long", long.clone()).tenant(Tenant::new(0).producers(1));
        let session = launch(on, &spec.tenant(Tenant::new(1)));
        let (mut own, mut victim) = (session.producer(0).unwrap(), session.producer(1).unwrap());
        let mut victims: Vec<Ticket> = (0..8)
            .map(|k| match k % 2 {
                0 => victim.submit(Task::new(op(20)).args([0, 1000 + k, 1, 1000 + k])).unwrap(),
                _ => victim.submit(Task::new(op(21)).args([0, 50 * k])).unwrap(),
            })
            .collect();
        until("all wait", || Ok(session.view::<u32>(1, "data")?.read(0, 1)?[0] == 8));
        for at in
            (3..80).chain([1 << 16, (1 << 30) - 8, 1 << 30, (1 << 30) + 1, 1 << 31, u32::MAX - 1, u32::MAX])
        {
            let mut ticket = own.submit(Task::new(op(20)).args([0, 5, at, 77])).unwrap();
            ticket.resume();
            assert_eq!(ticket.wait(soon()), Ok(10), "{shape}: word {at} of the frame is not there");
        }
        for (ticket, k) in victims.iter_mut().zip(0u32..) {
            ticket.resume();
            let right = if k % 2 == 0 { 3 * (1000 + k) } else { 8 * 50 * k + 36 };
            assert_eq!(ticket.wait(soon()), Ok(right), "{shape}: a frame was changed");
        }
    }
}

/// Catches a mark of a near stripe that the stripe's group writes over, because the group that follows the marks is
/// another one and slow: the one that has ended the task for which a fence waited. Fences then never end again.
fn marks_stay_until_another_group_has_followed_them(on: &On) {
    let laps = if on.caps().name == "cpu" { 3000 } else { 20 };
    for shape in shapes(on, &[near(1), near(8), both(1)]) {
        let session = launch(on, &shape.spec(4, 3).cells(8).handler_at(op(WAITS), "waits", waits()));
        let mut producer = session.producer(0).unwrap().patience(soon()).aim(Aim::Latency);
        for lap in 0..laps {
            // The task goes on in whichever group takes it from the queue, and the fence ends there.
            let mut waits = producer.submit(waiting(1, 1)).unwrap();
            let mut fence = producer.submit(Task::new(Opcode::BATCH_FENCE).args([1, 0])).unwrap();
            waits.resume();
            for _ in 0..24 {
                drop(producer.submit(add(1, 2)).unwrap());
            }
            assert_eq!(waits.wait(soon()), Ok(1), "{shape}, lap {lap}");
            assert!(fence.wait(soon()).is_ok(), "{shape}, lap {lap}: the fence does not end");
        }
        session.quiesce(soon()).unwrap();
    }
}

/// Catches a use whose number wraps around and that is taken for another one, or for none.
fn the_number_of_a_use_may_wrap_around(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &spec(shape));
        session.count_generations_from((1 << 24) - 3).unwrap();
        let mut producer = session.producer(0).unwrap().patience(soon());
        for lap in 0..6 {
            let mut span = producer.submit_all([counting(2, lap); CELLS as usize]).unwrap();
            assert_eq!(span.wait(soon()).unwrap().done, CELLS, "{shape}, lap {lap}");
            assert!(span.results().all(|end| end == Ok(lap)), "{shape}, lap {lap}");
        }
        drop(producer);
        let session = launch(on, &spec(shape));
        session.count_generations_from((1 << 24) - 3).unwrap();
        let mut producer = session.producer(0).unwrap().patience(soon());
        for lap in 0..6 {
            let mut tickets = [0; CELLS as usize].map(|_| producer.submit(waiting(5, lap)).unwrap());
            let (last, first) = tickets.split_last_mut().unwrap();
            last.cancel();
            assert!(matches!(last.wait(soon()), Err(TaskError::Cancelled { .. })), "{shape}, lap {lap}");
            for ticket in first {
                assert_eq!(ticket.result(), Err(TaskError::Late), "{shape}, lap {lap}");
                ticket.resume();
                assert_eq!(ticket.wait(soon()), Ok(lap), "{shape}, lap {lap}");
            }
        }
    }
}

/// Catches a task that is stopped before a group took it, and whose ticket tells of the steps of the last task of its
/// cell.
fn a_task_that_never_began_has_begun_no_step(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &spec(shape).cells(1));
        let mut producer = session.producer(0).unwrap().patience(soon());
        assert_eq!(run(&mut producer, counting(5, 1)), Ok(1), "{shape}");
        session.set_mask(0, 0).unwrap();
        let mut ticket = producer.submit(counting(5, 1)).unwrap();
        drop(producer);
        assert_eq!(session.stop().unwrap().tasks_left(), 1, "{shape}");
        assert_eq!(ticket.wait(soon()), Err(TaskError::Stopped { steps: 0 }), "{shape}");
    }
}

/// Catches a ticket that says where cells are, instead of where the slot of its task was.
fn a_ticket_knows_where_its_task_went(on: &On) {
    for shape in shapes(on, &[near(8), far(8), both(8)]) {
        let session = launch(on, &spec(shape));
        let mut producer = session.producer(0).unwrap().patience(soon());
        for (aim, placement) in [(Aim::Latency, Placement::Near), (Aim::Throughput, Placement::Far)] {
            let right = if shape.placement == Placement::Both { placement } else { shape.placement };
            producer.set_aim(aim);
            let mut ticket = producer.submit(counting(1, 2)).unwrap();
            assert_eq!((ticket.placement(), ticket.wait(soon())), (right, Ok(2)), "{shape}, {aim:?}");
            let mut span = producer.submit_all([counting(1, 2), add(0, 0)]).unwrap();
            assert_eq!(span.wait(soon()).unwrap().done, 2, "{shape}, {aim:?}");
            assert_eq!(span.placement(), right, "{shape}, {aim:?}");
        }
    }
}

/// Catches a task that lives in a cell although its tenant may not use its opcode, a cell that such a task keeps, and a
/// quota that is charged per step.
fn masks_and_quotas_hold_for_tasks_in_cells(on: &On) {
    for shape in shapes(on, ALL) {
        let session = launch(on, &spec(shape));
        let mut producer = session.producer(0).unwrap().patience(soon());
        session.allow(0, &[op(ADD)]).unwrap();
        for _ in 0..3 {
            let mut span = producer.submit_all([counting(2, 1); CELLS as usize]).unwrap();
            assert_eq!(span.wait(soon()).unwrap().faults, CELLS, "{shape}");
            assert!(span.results().all(|end| end == fault(FaultCode::DENIED)), "{shape}");
        }
        // What was asked of a task that was refused is not for the next one.
        let mut ticket = producer.submit(waiting(3, 1)).unwrap();
        ticket.pause();
        assert_eq!(ticket.wait(soon()), fault(FaultCode::DENIED), "{shape}");
        drop(ticket);
        session.set_mask(0, u32::MAX).unwrap();
        session.set_quota(0, 3).unwrap();
        let mut tickets: Vec<Ticket> = (0..4).map(|_| producer.submit(counting(9, 4)).unwrap()).collect();
        // The tasks may stand in several stripes, so any three of them run.
        let mut ended = 0;
        until("three tasks end", || {
            ended = tickets.iter_mut().filter_map(|ticket| ticket.result().ok()).count();
            Ok(ended >= 3)
        });
        assert_eq!((ended, session.credit(0).unwrap()), (3, Some(0)), "{shape}: a task is charged once");
        session.grant(0, 1).unwrap();
        for ticket in &mut tickets {
            assert_eq!(ticket.wait(soon()), Ok(4), "{shape}");
        }
    }
}

/// Catches a future that is not woken by the record of a cell, one that a later use of the cell wakes, and a producer
/// that waits for a cell and is not told.
fn futures_wait_for_cells(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &spec(shape));
        let (mut producer, mut other) = (session.producer(0).unwrap(), session.producer(0).unwrap());
        for lap in 0..3 {
            let mut tickets: Vec<Ticket> =
                (0..CELLS).map(|k| producer.submit(waiting(6, k)).unwrap()).collect();
            wait_for(&session, 6, CELLS * (2 * lap + 1));
            std::thread::scope(|threads| {
                // All cells are in use, so this waits until a ticket is dropped whose task has ended.
                let next = threads.spawn(|| block_on(producer.submit_when_room(counting(3, 70))));
                let waits = tickets.split_off(1).into_iter().map(|mut ticket| {
                    threads.spawn(move || {
                        let first = block_on(async {
                            std::future::poll_fn(|cx| {
                                // The first poll registers a waker.
                                let end = std::pin::Pin::new(&mut ticket).poll(cx);
                                std::task::Poll::Ready(end.is_ready())
                            })
                            .await
                        });
                        assert!(!first, "it waits for the host");
                        ticket.resume();
                        block_on(ticket)
                    })
                });
                for (wait, k) in waits.collect::<Vec<_>>().into_iter().zip(1..) {
                    assert_eq!(wait.join().unwrap(), Ok(k), "{shape}");
                }
                let mut ticket = next.join().unwrap().unwrap();
                assert_eq!(block_on(&mut ticket), Ok(70), "{shape}");
            });
            settle(&session, &mut other);
            tickets[0].resume();
            assert_eq!(block_on(&mut tickets[0]), Ok(0), "{shape}");
            drop(tickets);
            let mut span = producer.submit_all((0..CELLS).map(|k| counting(k, k))).unwrap();
            assert_eq!(block_on(&mut span).done, CELLS, "{shape}");
        }
    }
}
