//! Scans a stream of log lines with rules of its own, and prints matches as they are decided.
//!
//! ```console
//! cargo run --release -p pelton-scan --example scan-a-stream
//! ```

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;

use pelton_scan::rule::RuleSet;
use pelton_scan::scanner::StreamOptions;
use pelton_scan::{Scanner, rules};

/// A log that is made while it is read.
struct Log {
    line: u64,
    rest: Vec<u8>,
}

impl Read for Log {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() && self.line < 2_000_000 {
            self.line += 1;
            self.rest = match self.line % 500_000 {
                0 => format!("line {}: ERROR code={} while writing\n", self.line, self.line / 1000),
                _ => format!("line {}: all is well\n", self.line),
            }
            .into_bytes();
        }
        let count = self.rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.rest[..count]);
        self.rest.drain(..count);
        Ok(count)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rules = [("error", r"ERROR code=(\d+)"), ("panic", r"(?i)panicked at .*")];
    let rules = rules.iter().map(|(id, text)| rules::from_expression(id, text)).collect::<Result<_, _>>()?;
    let scanner = Scanner::new(RuleSet { rules, ..RuleSet::default() })?;
    let mut count = 0;
    let options = StreamOptions { retain: 1 << 20, ..StreamOptions::default() };
    let mut log = Log { line: 0, rest: vec![] };
    let report = scanner.scan_reader(Path::new("log"), &mut log, options, &mut |finding| {
        println!("line {}: {}", finding.line, String::from_utf8_lossy(&finding.text));
        count += 1;
        ControlFlow::Continue(())
    })?;
    println!("{count} findings in {} bytes", report.bytes);
    assert_eq!(count, 4);
    Ok(())
}
