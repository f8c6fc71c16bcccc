//! `pelton litmus`: tests the memory model's promises on hardware, many times over.
//!
//! Every case is a kernel with thousands of independent cells, each of which plays rounds with a partner: the host,
//! or a lane of another group. Outcomes that the memory orders forbid are counted, and none may occur. Each case
//! also has a twin in which every order is relaxed. Outcomes that occur there show what the orders are for; they
//! need not occur, because processors are stricter than the language. The cases of [`region`] feed a session
//! instead, and have no twin.

mod case;
mod host;
mod region;
mod row;
mod stage;

use std::path::PathBuf;
use std::sync::Arc;

use pelton::Placement;
use pelton_device::{Caps, Device, open};

use case::{CASES, CaseShape, LitmusCase, weaken};
use row::LitmusRow;
use stage::{CaseResult, Orders, launch_case};

use crate::bench::{machine, parse_kernel};
use crate::count::parse_count_in;
use crate::error::CliError;
use crate::term::Term;
use crate::{CliStatus, json, stop};

/// Test the memory model's promises on hardware, and count outcomes that it forbids
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pelton litmus
  pelton litmus --device cuda --rounds 1e8 --json rows.jsonl
  pelton litmus --device reference --rounds 100 --only buffering
  pelton litmus --json - > rows.jsonl     write rows to standard output instead of the table

Each case runs with its memory orders kept, where a forbidden outcome is a failure, and with all
orders relaxed, where it shows what the orders are for. Ctrl-C ends the command with the rows so
far and exit status 130.")]
pub(crate) struct LitmusArgs {
    /// The device to test; `pelton devices` lists them
    #[arg(long, short, value_name = "NAME", default_value = "auto")]
    device: String,

    /// The least number of rounds per case, such as 1e8; the cases of regions play one round for every 200. Chosen
    /// for the device if it is not given
    #[arg(long, value_name = "N", value_parser = parse_count_in::<u64>(1..=u64::MAX), allow_negative_numbers = true)]
    rounds: Option<u64>,

    /// Run only the cases whose name contains this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,

    /// Write the rows to this file, one JSON object per line; `-` writes them to standard output instead of the
    /// table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run_litmus(args: &LitmusArgs, term: &Term) -> Result<CliStatus, CliError> {
    json::check_rows_writable(args.json.as_deref())?;
    stop::listen()?;
    term.note(machine::machine_line());
    let device = open(&args.device)?;
    let rounds = args.rounds.unwrap_or_else(|| suitable_rounds(device.caps()));
    let mut rows = Vec::new();
    'cases: for case in CASES.iter().filter(|case| case.name.contains(&args.only)) {
        term.note(format_args!("{} …", case.name));
        for orders in [Orders::Kept, Orders::Relaxed] {
            if stop::pressed() {
                break 'cases;
            }
            let result = match absence_reason(case.shape, device.caps()) {
                Some(why) => Err(why),
                None => match play_case(&device, case, rounds, orders) {
                    Err(_) if stop::pressed() => break 'cases,
                    seen => Ok(seen?),
                },
            };
            rows.push(LitmusRow { case: case.name, beside: case.beside, orders, result });
        }
    }
    for (name, memory, placement) in region::CASES.iter().filter(|(name, ..)| name.contains(&args.only)) {
        if stop::pressed() {
            break;
        }
        term.note(format_args!("{name} …"));
        let result = match &device.caps().near_memory {
            Err(why) if *placement != Placement::Far => Err(why.clone()),
            // A round is a copy and a few tasks, which takes as long as hundreds of rounds of the other cases.
            _ => match region::play_region(&device, (*memory, *placement), (rounds / 200).max(1)) {
                Err(_) if stop::pressed() => break,
                seen => Ok(seen?),
            },
        };
        rows.push(LitmusRow { case: name, beside: "tasks", orders: Orders::Kept, result });
    }
    if rows.is_empty() && !stop::pressed() {
        return Err(CliError::Wrong(format!(
            "no case has {:?} in its name; run without --only to see all names",
            args.only
        )));
    }
    let name = &device.caps().name;
    if json::write_rows(args.json.as_deref(), &row::rows_json(&rows, name), term)? && !rows.is_empty() {
        row::show_rows(&rows, name, term)?;
    }
    let status = stop::status_after(rows.len(), term);
    row::judge_rows(&rows).map_err(CliError::Wrong)?;
    Ok(status)
}

/// The number of rounds per case that a device plays in a few seconds.
fn suitable_rounds(caps: &Caps) -> u64 {
    match caps.memory_bytes {
        Some(_) => 20_000_000,
        None if caps.name.starts_with("reference") => 1_000,
        None => 200_000,
    }
}

/// The reason why a case cannot be played on a device, if it cannot.
fn absence_reason(shape: CaseShape, caps: &Caps) -> Option<String> {
    if let (true, Err(why)) = (shape.near(), &caps.near_memory) {
        return Some(why.clone());
    }
    // Where a line is stored word by word, only an acquire load of its first word ensures that the others have
    // arrived.
    let split = shape == CaseShape::Octets && caps.memory_bytes.is_none();
    split.then(|| "the host does not write a line with one store on this device".into())
}

fn play_case(
    device: &Arc<dyn Device>,
    case: &LitmusCase,
    rounds: u64,
    orders: Orders,
) -> Result<CaseResult, CliError> {
    let text = match orders {
        Orders::Kept => case.text.into(),
        Orders::Relaxed => weaken(case.text),
    };
    let module = parse_kernel(case.name, &text)?;
    launch_case(device, &module, (case.shape, case.partner), rounds, orders)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a case with a part of its kernel replaced, and judges the result.
    fn broken(name: &str, part: &str, with: &str) -> Result<(), String> {
        let case = CASES.iter().find(|case| case.name == name).expect("there is such a case");
        assert!(case.text.contains(part), "{name} has no {part}");
        let module = parse_kernel(name, &case.text.replace(part, with)).expect("it is a program");
        let device = open("cpu").expect("there is a processor");
        let played = (case.shape, case.partner);
        let seen = launch_case(&device, &module, played, 100, Orders::Kept).expect("it comes to its end");
        row::judge_rows(&[LitmusRow {
            case: case.name,
            beside: case.beside,
            orders: Orders::Kept,
            result: Ok(seen),
        }])
    }

    #[test]
    fn a_kernel_that_writes_old_words_is_found_out() {
        for name in ["device to device", "device to host, flag", "device to host, record"] {
            assert_eq!(broken(name, "kernel", "kernel"), Ok(()), "{name}");
            let why = broken(name, "@data[%far], %r", "@data[%far], %last").expect_err("words are old");
            assert!(why.contains(name), "{why}");
        }
    }

    #[test]
    fn a_kernel_that_reads_other_words_is_found_out() {
        broken("host to device, far", "kernel", "kernel").expect("this one is not broken");
        broken("host to device, far", "@data[%far]", "@data[0x7fff]").expect_err("there is no such word");
        broken("host to device, near", "%w7, %x", "%w7, 0u64").expect_err("no word is zero");
        broken("publish and claim", "%u, %mark", "%u, %at").expect_err("no word is of the position before");
    }

    #[test]
    fn a_claim_that_two_have_is_found_out() {
        broken("publish and claim", "add %w, 1", "add %w, 2").expect_err("more were claimed than there are");
    }

    #[test]
    fn partners_that_do_not_see_each_other_are_found_out() {
        broken("store buffering", "ge %x, %r", "gt %x, %r").expect_err("neither has seen the other");
    }

    #[test]
    fn twins_have_no_order_and_no_fence() {
        for case in &CASES {
            let weak = weaken(case.text);
            let code: Vec<&str> = weak.lines().filter(|line| !line.starts_with(';')).collect();
            let orders = ["acquire", "release", "fence", "seq_cst"];
            assert!(!code.iter().any(|line| orders.iter().any(|order| line.contains(order))), "{weak}");
            parse_kernel(case.name, &weak).expect("it is a program");
        }
    }
}
