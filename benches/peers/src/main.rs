//! Measures a published crate in the cases in which `pelton bench session --device cuda` drains batches, and prints
//! the same rows.

// The format of rows is shared by including its source, so that neither program depends on the other.
#[path = "../../../crates/cli/src/bench/machine.rs"]
mod machine;
#[allow(dead_code, reason = "no row of this program is held against another")]
#[path = "../../../crates/cli/src/bench/ratio.rs"]
mod ratio;
#[allow(dead_code, reason = "no row of this program is held against another")]
#[path = "../../../crates/cli/src/bench/row.rs"]
mod row;
mod vyre;

use std::error::Error;
use std::process::ExitCode;

const HELP: &str = "\
Measures vyre-runtime on a CUDA device: batches of 256 to 1,048,576 items, uploaded, run and read back.

Usage: pelton-peers [--json FILE]

  --json FILE  write the rows to this file, one JSON object per line; `-` writes them to standard output instead of the table";

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<(), Box<dyn Error>> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let json = match args[..] {
        [] => None,
        ["--json", path] => Some(path),
        ["-h" | "--help"] => {
            println!("{HELP}");
            return Ok(());
        }
        _ => return Err("the one option is --json FILE".into()),
    };
    eprintln!("{}", machine::machine_line());
    let rows = vyre::rows()?;
    if let Some(path) = json {
        let lines = row::rows_json(&rows);
        match path {
            "-" => print!("{lines}"),
            path => std::fs::write(path, lines)?,
        }
    }
    if json != Some("-") {
        let (head, lines) = row::rows_table(&rows);
        println!("{head}\n{}", lines.join("\n"));
    }
    Ok(())
}
