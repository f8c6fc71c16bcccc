//! The text that is scanned: source code of this machine, or text that resembles it.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::{env, fs};

use pelton_scan::sample_rules::{SampleRandom, SampleRules};

use super::source_words::generated_source;

/// The largest file that is taken.
const FILE_MAX: u64 = 1 << 20;
/// The number of bytes for each planted match.
const BYTES_PER_PLANT: usize = 256 << 10;
/// The length of generated files.
const GENERATED_LEN: usize = 12 << 10;

/// A file within the text.
pub(super) struct TextFile {
    /// A name that no other file has.
    pub name: PathBuf,
    /// Where its bytes lie.
    pub range: Range<usize>,
}

/// Files, one after the other in memory. Their order is random, so that the first ones are a fair sample.
pub(super) struct BenchText {
    /// What the text is, for people.
    pub origin: String,
    /// The bytes of all files.
    pub bytes: Vec<u8>,
    /// The files, in the order of their bytes.
    pub files: Vec<TextFile>,
    /// The number of matches that were planted.
    pub planted: usize,
    /// The number of bytes until the next planted match.
    until_plant: usize,
}

impl BenchText {
    /// Gathers about `wanted` bytes and plants matches of the rules in them.
    pub(super) fn gather(wanted: usize, rules: &[&SampleRules]) -> BenchText {
        let mut random = SampleRandom::new(12);
        let mut text = BenchText {
            origin: String::new(),
            bytes: Vec::with_capacity(wanted),
            files: Vec::new(),
            planted: 0,
            until_plant: BYTES_PER_PLANT,
        };
        for path in shuffled_sources(&mut random) {
            if text.bytes.len() >= wanted {
                break;
            }
            match fs::read(&path) {
                Ok(bytes) if !bytes[..bytes.len().min(8 << 10)].contains(&0) => {
                    text.push(&bytes, path.extension().and_then(|name| name.to_str()), rules, &mut random);
                }
                // A file that is binary or has gone is no loss.
                _ => {}
            }
        }
        let sources = text.bytes.len();
        while text.bytes.len() < wanted {
            let bytes = generated_source(GENERATED_LEN, &mut random);
            text.push(&bytes, Some("rs"), rules, &mut random);
        }
        let generated = text.bytes.len() - sources;
        let megabytes = |bytes: usize| bytes as f64 / 1e6;
        text.origin = match (sources, generated) {
            (_, 0) => format!("{:.1} MB of source code from cargo's registry", megabytes(sources)),
            (0, _) => {
                format!("{:.1} MB of generated text, since cargo's registry is empty", megabytes(generated))
            }
            _ => format!(
                "{:.1} MB of source code from cargo's registry and {:.1} MB of generated text",
                megabytes(sources),
                megabytes(generated)
            ),
        };
        text
    }

    /// Adds a file with planted matches.
    fn push(
        &mut self,
        bytes: &[u8],
        extension: Option<&str>,
        rules: &[&SampleRules],
        random: &mut SampleRandom,
    ) {
        let start = self.bytes.len();
        let mut rest = bytes;
        while self.until_plant < rest.len() {
            let line_end = rest[self.until_plant..].iter().position(|byte| *byte == b'\n');
            let line_end = line_end.map_or(rest.len(), |at| self.until_plant + at + 1);
            self.bytes.extend_from_slice(&rest[..line_end]);
            rest = &rest[line_end..];
            let set = random.pick(rules);
            if let Some(line) = set.example(random.below(set.count()), random) {
                self.bytes.extend_from_slice(format!("    {line}\n").as_bytes());
                self.planted += 1;
            }
            self.until_plant = random.below(2 * BYTES_PER_PLANT);
        }
        self.until_plant -= rest.len();
        self.bytes.extend_from_slice(rest);
        let name = format!("{}.{}", self.files.len(), extension.unwrap_or("txt"));
        self.files.push(TextFile { name: name.into(), range: start..self.bytes.len() });
    }

    /// The bytes of a file.
    pub(super) fn file(&self, file: usize) -> &[u8] {
        &self.bytes[self.files[file].range.clone()]
    }

    /// The files of a slice of about `wanted` bytes. Every turn has another one, until the text is used up and the
    /// slices begin again.
    pub(super) fn slice(&self, wanted: usize, turn: usize) -> Range<usize> {
        let slices = (self.bytes.len() / wanted.max(1)).max(1);
        let start = turn % slices * wanted;
        let file_at = |position: usize| self.files.partition_point(|file| file.range.start < position);
        file_at(start)..file_at(start + wanted).max(file_at(start) + 1).min(self.files.len())
    }

    /// The number of bytes of some files.
    pub(super) fn bytes_of(&self, files: Range<usize>) -> usize {
        self.files[files].iter().map(|file| file.range.len()).sum()
    }
}

/// The files of cargo's registry that are not too large, in random order.
fn shuffled_sources(random: &mut SampleRandom) -> Vec<PathBuf> {
    let home = env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    let mut paths = Vec::new();
    if let Some(home) = home {
        collect_files(&home.join("registry/src"), &mut paths);
    }
    // The order of folders' entries is not the same everywhere.
    paths.sort();
    for at in (1..paths.len()).rev() {
        paths.swap(at, random.below(at + 1));
    }
    paths
}

/// Adds the files in a folder and those below it. What cannot be read is left out.
fn collect_files(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(meta) if meta.is_dir() => collect_files(&entry.path(), paths),
            Ok(meta) if meta.is_file() && (1..=FILE_MAX).contains(&meta.len()) => paths.push(entry.path()),
            _ => {}
        }
    }
}
