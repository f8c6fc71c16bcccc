//! A peer in another process: Hyperscan through its Python package, and the `regex` crate for what it reports.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use pelton_scan::Scanner;
use regex::bytes::Regex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::found::FoundSummary;
use super::ours::ScanTurn;
use super::peers::add_matches;
use super::scratch::ScratchText;
use super::text::BenchText;
use crate::error::CliError;

/// The program that runs in the other process.
const SCRIPT: &str = include_str!("hyperscan.py");

/// Hyperscan in a process of its own, with the rules compiled and the text read.
pub(super) struct HyperscanPeer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// What Hyperscan says about itself and the rules.
    pub about: HyperscanInfo,
    /// The files and rules that need the `regex` crate.
    pairs: Vec<(usize, u32)>,
}

/// What Hyperscan says about itself and the rules.
#[derive(Deserialize)]
pub(super) struct HyperscanInfo {
    /// The version, and what it uses of the processor.
    pub version: String,
    /// How long it took to compile the rules.
    pub compile_seconds: f64,
    /// The rules that it can compile.
    compiled: Vec<u32>,
}

/// Whether Python finds the package.
pub(super) fn is_installed() -> bool {
    let mut command = Command::new("python3");
    command.args(["-c", "import hyperscan"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

impl HyperscanPeer {
    /// Starts the process, and collects what Hyperscan reports. Rules that it cannot compile, and those that need
    /// Unicode, are searched for everywhere.
    pub(super) fn start(
        scanner: &Scanner,
        text: &BenchText,
        scratch: &ScratchText,
    ) -> Result<HyperscanPeer, CliError> {
        let rules: Vec<Option<&str>> = scanner
            .rules()
            .rules
            .iter()
            .map(|rule| rule.expression.as_ref().filter(|expression| !expression.unicode()).map(|e| e.text()))
            .collect();
        let ranges: Vec<_> = text.files.iter().map(|file| (file.range.start, file.range.end)).collect();
        let rule_file = scratch.add_file("rules.json", json!(rules).to_string().as_bytes())?;
        let range_file = scratch.add_file("files.json", json!(ranges).to_string().as_bytes())?;
        let mut command = Command::new("python3");
        command.args(["-c", SCRIPT]).arg(rule_file).arg(scratch.large_file()).arg(range_file);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(|error| failed(&error))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed(&"its pipes are missing"));
        };
        let about = HyperscanInfo { version: String::new(), compile_seconds: 0.0, compiled: Vec::new() };
        let output = BufReader::new(output);
        let mut peer = HyperscanPeer { child, input, output, about, pairs: Vec::new() };
        peer.about = peer.answer()?;
        peer.pairs = peer.ask("collect")?;
        let is_compiled = |rule: &u32| peer.about.compiled.binary_search(rule).is_ok();
        let others: Vec<u32> = (0..rules.len() as u32).filter(|rule| !is_compiled(rule)).collect();
        peer.pairs
            .extend((0..text.files.len()).flat_map(|file| others.iter().map(move |rule| (file, *rule))));
        peer.pairs.sort_unstable();
        Ok(peer)
    }

    /// Describes the library and its work for people.
    pub(super) fn describe(&self) -> String {
        let (compiled, pairs) = (self.about.compiled.len(), self.pairs.len());
        format!(
            "hyperscan ({}) has compiled {compiled} rules, and leaves {pairs} pairs of a file and a rule to regex",
            self.about.version
        )
    }

    /// Scans all files with Hyperscan, and searches what it reported with the `regex` crate. The time is the sum of
    /// both; what passes between the processes is not counted.
    pub(super) fn scan(&mut self, regexes: &[Regex], text: &BenchText) -> Result<ScanTurn, CliError> {
        let scan_seconds: f64 = self.ask("scan")?;
        let mut found = FoundSummary::default();
        let start = Instant::now();
        for &(file, rule) in &self.pairs {
            add_matches(&regexes[rule as usize], file, rule, text.file(file), &mut found);
        }
        let seconds = scan_seconds + start.elapsed().as_secs_f64();
        Ok(ScanTurn { seconds, bytes: text.bytes.len(), found })
    }

    /// Sends a request, and waits for the answer.
    fn ask<T: DeserializeOwned>(&mut self, request: &str) -> Result<T, CliError> {
        writeln!(self.input, "{request}").map_err(|error| failed(&error))?;
        self.answer()
    }

    fn answer<T: DeserializeOwned>(&mut self) -> Result<T, CliError> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|error| failed(&error))?;
        serde_json::from_str(&line).map_err(|error| failed(&error))
    }
}

impl Drop for HyperscanPeer {
    fn drop(&mut self) {
        // It may have ended already, and then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn failed(error: &dyn std::fmt::Display) -> CliError {
    CliError::Wrong(format!("Hyperscan in Python failed: {error}"))
}
