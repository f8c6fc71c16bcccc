//! Writes the table of how often three bytes follow each other in text, by which factors are chosen.
//!
//! ```console
//! cargo run --release -p pelton-scan --example count-trigrams -- crates/scan/src/factor/trigrams.bin FOLDER…
//! ```
//!
//! Upper-case letters count as lower-case letters. An entry has four bytes: the three bytes, and four times the binary
//! logarithm of how often they occur in 2^30 bytes, rounded. Entries are sorted; what occurs less than
//! twice per MiB is left out.

use std::path::Path;
use std::{env, fs};

fn main() -> std::io::Result<()> {
    let mut args = env::args_os().skip(1);
    let table = args.next().expect("give the file to write and the folders to read");
    let mut counts = vec![0u64; 1 << 24];
    let mut bytes = 0;
    for folder in args {
        count_folder(Path::new(&folder), &mut counts, &mut bytes)?;
    }
    let mut entries = vec![];
    for (trigram, &count) in counts.iter().enumerate() {
        let rate = count as f64 * f64::from(1 << 30) / bytes as f64;
        if rate >= 2048.0 {
            entries.extend([
                (trigram >> 16) as u8,
                (trigram >> 8) as u8,
                trigram as u8,
                (rate.log2() * 4.0).round() as u8,
            ]);
        }
    }
    println!("{} entries from {bytes} bytes", entries.len() / 4);
    fs::write(table, entries)
}

/// Counts the trigrams of all text files below a folder. At most 64 KiB of each file are read.
fn count_folder(folder: &Path, counts: &mut [u64], bytes: &mut u64) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            count_folder(&entry.path(), counts, bytes)?;
        } else if kind.is_file() {
            let mut text = fs::read(entry.path())?;
            text.truncate(1 << 16);
            if text.contains(&0) {
                continue;
            }
            text.make_ascii_lowercase();
            *bytes += text.len() as u64;
            for three in text.windows(3) {
                counts[usize::from(three[0]) << 16 | usize::from(three[1]) << 8 | usize::from(three[2])] += 1;
            }
        }
    }
    Ok(())
}
