//! The tables of the manual, made from the tables of the protocol.
//!
//! `docs/protocol.md` contains these tables between markers, and a test compares it with the result of [`sections`].

use std::fmt::Write;

use super::step::{
    self, ALONE, DRAIN, EVENTS, FAR, FENCES, FOLLOW, GRAPHS, GROUP_STEPS, KEEPER, KEPT, LANE, LANE_STEPS,
    LANES, LOCAL, MARKS, NEAR, ONCE, OWN, PAIR, PAYLOAD, RECOVERY, REMOTE, REPLY, SPAWNS, STEPS, TELLS, TOLD,
    TREES, VERB, WAKE, WATCH,
};
use super::{
    Priority, Status, StatusMove, UNBOUNDED, WindowState, WordRow, control, fault, graph, io, log, opcode,
    record, slot,
};
use crate::kernel::PROVIDED_OPS;
use crate::kernel::cells::{ask, cell_state};

/// Returns the table of a layout. `mark` is the heading of the column that distinguishes its rows.
fn word_table<M: std::fmt::Debug>(table: &[WordRow<M>], mark: &str) -> String {
    let mut text = format!("| word | name | {mark} | meaning |\n|---|---|---|---|\n");
    for row in table {
        let (first, name, mark, doc) =
            (row.first, row.name, format!("{:?}", row.mark).to_lowercase(), row.doc);
        let number = match row.count {
            1 => first.to_string(),
            UNBOUNDED => format!("{first}…"),
            count => format!("{first}-{}", first + count - 1),
        };
        let _ = writeln!(text, "| {number} | `{name}` | {mark} | {doc} |");
    }
    text
}

/// Returns a table of numbered names.
fn code_table<'a>(head: &str, rows: impl Iterator<Item = (u32, &'a str, &'a str)>) -> String {
    let mut text = format!("| value | {head} | meaning |\n|---|---|---|\n");
    for (code, name, doc) in rows {
        let _ = writeln!(text, "| {} | {name} | {doc} |", format_code(code));
    }
    text
}

/// Returns a number in the base that readers expect: decimal if it is small, and otherwise hexadecimal.
fn format_code(code: u32) -> String {
    if code < 16 { code.to_string() } else { format!("{code:#x}") }
}

/// Returns the words of a slot.
fn slot_words() -> String {
    word_table(slot::TABLE, "in")
}

/// Returns the statuses.
fn statuses() -> String {
    code_table("status", Status::ALL.iter().map(|status| (status.code(), status.name(), status.doc())))
}

/// Returns the states of tasks inside a window that have not ended.
fn window_states() -> String {
    code_table("state", WindowState::ALL.iter().map(|state| (state.code(), state.name(), state.doc())))
}

/// Returns the moves between statuses.
fn moves() -> String {
    let mut text = String::from("| move | from | to | meaning |\n|---|---|---|---|\n");
    for step in StatusMove::ALL {
        let from: Vec<&str> = step.from().iter().map(|status| status.name()).collect();
        let _ = writeln!(text, "| {step} | {} | {} | {} |", from.join(", "), step.to(), step.doc());
    }
    text
}

/// Returns the priorities.
fn priorities() -> String {
    code_table("priority", Priority::ALL.iter().map(|level| (level.code(), level.name(), level.doc())))
}

/// Returns the built-in opcodes and the reserved ranges.
fn opcodes() -> String {
    let mut text = String::from("| value | name | arguments | effect |\n|---|---|---|---|\n");
    for row in opcode::TABLE {
        let (code, name, args) = (format_code(row.opcode.code()), row.name, row.args.join(", "));
        let _ = writeln!(text, "| {code} | `{name}` | {args} | {} |", row.doc);
    }
    let provided: Vec<String> = PROVIDED_OPS.iter().map(|(op, _)| format!("`{op}`")).collect();
    let _ = write!(
        text,
        "\nReserved: {}. Handlers may have all others. Of the reserved ones, handlers may have {}, with the arguments above.\n",
        opcode::reserved_ranges(),
        provided.join(", ")
    );
    text
}

/// Returns the fault codes.
fn faults() -> String {
    let mut text =
        code_table("fault", fault::TABLE.iter().map(|(code, name, doc)| (code.code(), *name, *doc)));
    let _ =
        writeln!(text, "| {:#x}-{:#x} | | A handler defines the code. |", fault::FIRST_USER, fault::MAX_CODE);
    text
}

/// Returns the words of a completion record.
fn record_words() -> String {
    word_table(record::TABLE, "half")
}

/// Returns the bits of a cell's state, its phases, and what the host can ask of a cell.
fn cell_words() -> String {
    use cell_state::{
        ASKED, AWAITS_CHILDREN, AWAITS_EVENT, AWAITS_HOST, CANCEL, CHILD_SHIFT, ENDED, ENDED_BEFORE_CHILDREN,
        GENERATION_SHIFT, HAD_CHILDREN, MAX_CHILDREN, NEXT_SHIFT, OWED, PARKED, PAUSE, PHASE, RESUMED,
        RUNNABLE,
    };
    let bits = |mask: u64| match (mask.trailing_zeros(), 63 - mask.leading_zeros()) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    };
    let generation = u64::from(slot::GENERATION_MASK) << GENERATION_SHIFT;
    let mut text = String::from("| bits | name | meaning |\n|---|---|---|\n");
    for (mask, name, doc) in [
        (PHASE, "PHASE", "The phase of the cell."),
        (HAD_CHILDREN, "HAD_CHILDREN", "The task has had children."),
        (CANCEL, "CANCEL", "The host has asked that the task end."),
        (PAUSE, "PAUSE", "The host has asked that the task begin no further step."),
        (
            RESUMED,
            "RESUMED",
            "The host has resumed the task, which has not waited since. Its next `park` does not wait.",
        ),
        (
            ASKED << NEXT_SHIFT,
            "NEXT",
            "The same three bits, for the next task of a cell whose phase is ENDED.",
        ),
        (
            AWAITS_HOST,
            "AWAITS_HOST",
            "The task is PARKED because of its own `park`, and not only because of a pause.",
        ),
        (AWAITS_CHILDREN, "AWAITS_CHILDREN", "The task is PARKED until its children have ended."),
        (AWAITS_EVENT, "AWAITS_EVENT", "The task is PARKED until an event was signalled often enough."),
        (
            ENDED_BEFORE_CHILDREN,
            "ENDED_BEFORE_CHILDREN",
            "The task is PARKED because it has ended and some of its children have not.",
        ),
        (MAX_CHILDREN << CHILD_SHIFT, "CHILDREN", "The number of children that have not ended."),
        (
            generation,
            "GENERATION",
            "How often the cell was used, modulo 2^24. This is the generation of the cell's record.",
        ),
        (OWED, "OWED", "How many records are owed, in kernels that have batch fences."),
    ] {
        let _ = writeln!(text, "| {} | `{name}` | {doc} |", bits(mask));
    }
    let phases = [
        (ENDED, "ENDED", "The cell holds no task, or one that has ended."),
        (
            RUNNABLE,
            "RUNNABLE",
            "The task runs or is ready to run. The cell has arrived at a group, is at its home, or is in a queue.",
        ),
        (
            PARKED,
            "PARKED",
            "The task waits: for the host, for its children, or for an event. Nobody has the cell.",
        ),
    ];
    let asks = [
        (ask::CANCEL, "CANCEL", "The task is to end."),
        (ask::PAUSE, "PAUSE", "The task is to begin no further step."),
        (
            ask::RESUME,
            "RESUME",
            "The pause of the task ends. If it is not paused, its `park` ends, or its next one does not wait.",
        ),
        (
            ask::SIGNAL,
            "SIGNAL",
            "An event is signalled. Its number among those of all tenants takes the place of the cell, and how often it is signalled that of the generation.",
        ),
    ];
    let phases = code_table("phase", phases.into_iter().map(|(code, name, doc)| (code as u32, name, doc)));
    format!("{text}\n{phases}\n{}", code_table("ask", asks.into_iter()))
}

/// Returns the control words.
fn control_words() -> String {
    word_table(control::TABLE, "writer")
}

/// Returns the words of the debug log.
fn log_words() -> String {
    word_table(log::TABLE, "of the")
}

/// Returns the words of an IO request, and the numbers in them.
fn io_queue() -> String {
    let ops = code_table("operation", io::IoOp::ALL.iter().map(|op| (op.code(), op.name(), op.doc())));
    let states =
        code_table("state", io::IoState::ALL.iter().map(|state| (state.code(), state.name(), state.doc())));
    format!("{}\n{ops}\n{states}", word_table(io::TABLE, "writer"))
}

/// Returns the words of a graph, and the kinds of arguments.
fn graph_words() -> String {
    let kinds =
        code_table("kind", graph::ArgKind::ALL.iter().map(|kind| (kind.code(), kind.name(), kind.doc())));
    format!("{}\n{kinds}", word_table(graph::TABLE, "of the"))
}

/// Returns the steps that order other accesses.
fn steps() -> String {
    let mut text = String::from("| step | who | in | does | meaning |\n|---|---|---|---|---|\n");
    for row in step::TABLE.iter().filter(|row| row.orders()) {
        let (who, op) = (format!("{:?}", row.actor).to_lowercase(), row.op.row().name);
        let kinds = [
            (NEAR, "near"),
            (FAR, "far"),
            (DRAIN, "drained"),
            (FOLLOW, "with cells"),
            (VERB, "in tasks"),
            (WAKE, "where tasks wait"),
        ];
        let kinds: Vec<&str> =
            kinds.iter().filter(|(bit, _)| row.shapes & bit != 0).map(|(_, word)| *word).collect();
        let only = [
            (FENCES, "with fences"),
            (LANE, "one lane"),
            (LANES, "several lanes"),
            (WATCH, "watched"),
            (LOCAL, "in the host's memory"),
            (OWN, "control words are read from the host"),
            (KEPT, "a group keeps the control words"),
            (KEEPER, "that group does nothing else"),
            (TELLS, "pollers are told"),
            (TOLD, "by a poller that is told"),
            (REMOTE, "the device has memory of its own"),
            (PAYLOAD, "with payloads"),
            (REPLY, "with replies"),
            (STEPS, "with tasks of several steps"),
            (LANE_STEPS, "lane-wide ones"),
            (GROUP_STEPS, "group-wide ones"),
            (MARKS, "windows leave marks"),
            (PAIR, "with both kinds of rings"),
            (ALONE, "that make and await no others"),
            (TREES, "that make or await others"),
            (SPAWNS, "with spawned tasks"),
            (EVENTS, "with events"),
            (GRAPHS, "with graphs"),
            (RECOVERY, "with recovery"),
            (ONCE, "with tasks that must not begin twice"),
        ];
        let only: String = only
            .iter()
            .filter(|(bit, _)| row.shapes & bit != 0)
            .map(|(_, word)| format!("; {word}"))
            .collect();
        let at = match (row.buffer, row.word) {
            ("", _) => String::new(),
            (buffer, None) => format!(" @{buffer}"),
            (buffer, Some(word)) => format!(" @{buffer}[{word}]"),
        };
        let (order, scope) = (row.order, row.scope);
        let kinds = kinds.join(", ");
        let _ = writeln!(
            text,
            "| {} | {who} | {kinds}{only} | `{op} {order} {scope}{at}` | {} |",
            row.name, row.doc
        );
    }
    text
}

/// Returns every section of the manual that is made from tables, with the name of its markers.
pub fn sections() -> [(&'static str, String); 14] {
    [
        ("slot", slot_words()),
        ("statuses", statuses()),
        ("window states", window_states()),
        ("moves", moves()),
        ("priorities", priorities()),
        ("opcodes", opcodes()),
        ("faults", faults()),
        ("record", record_words()),
        ("cells", cell_words()),
        ("steps", steps()),
        ("control", control_words()),
        ("log", log_words()),
        ("io", io_queue()),
        ("graph", graph_words()),
    ]
}
