//! The cache of compiled rules: a second scanner of the same rules finds the same, and no damage goes unnoticed.

use std::path::{Path, PathBuf};
use std::{fs, process};

use pelton_scan::catalog::CatalogCache;
use pelton_scan::rule::RuleSet;
use pelton_scan::{Finding, Scanner, rules};

/// An empty folder, which is removed afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("pelton-scan-cache-{name}-{}", process::id()));
        let _ = fs::remove_dir_all(&path);
        Folder(path)
    }

    fn entries(&self) -> Vec<PathBuf> {
        fs::read_dir(&self.0).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn set(expressions: &[&str]) -> RuleSet {
    let rule = |(number, text): (usize, &&str)| rules::from_expression(&format!("r{number}"), text).unwrap();
    RuleSet { rules: expressions.iter().enumerate().map(rule).collect(), ..RuleSet::default() }
}

fn find(scanner: &Scanner) -> Vec<Finding> {
    scanner.scan_bytes(Path::new("text"), b"one ghp_x two ghp_yz 123 and (?(?(?").unwrap()
}

/// The last expression is too large to be compiled.
const EXPRESSIONS: &[&str] = &["ghp_[a-z]+", r"\d+", "two", r"(?:\w{1000}){1000}"];

#[test]
fn a_cached_scanner_finds_the_same() {
    let folder = Folder::new("same");
    let cache = CatalogCache::new(&folder.0);
    let first = Scanner::with_cache(set(EXPRESSIONS), Some(&cache)).unwrap();
    assert_eq!(folder.entries().len(), 1);
    let second = Scanner::with_cache(set(EXPRESSIONS), Some(&cache)).unwrap();
    assert_eq!(folder.entries().len(), 1);
    assert_eq!(find(&first).len(), 4);
    assert_eq!(find(&first), find(&second));
    assert_eq!(first.catalog(), second.catalog());
    assert_eq!(first.rules().rejected.len(), 1);
    assert_eq!(first.rules().rejected, second.rules().rejected);
}

#[test]
fn other_rules_have_another_entry() {
    let folder = Folder::new("other");
    let cache = CatalogCache::new(&folder.0);
    Scanner::with_cache(set(&["two"]), Some(&cache)).unwrap();
    let other = Scanner::with_cache(set(&["one"]), Some(&cache)).unwrap();
    assert_eq!(folder.entries().len(), 2);
    assert_eq!(find(&other)[0].text, b"one");
}

#[test]
fn a_damaged_entry_is_built_again() {
    let folder = Folder::new("damaged");
    let cache = CatalogCache::new(&folder.0);
    let whole = find(&Scanner::with_cache(set(EXPRESSIONS), Some(&cache)).unwrap());
    let entry = folder.entries().pop().unwrap();
    let good = fs::read(&entry).unwrap();
    for at in (0..good.len()).step_by(good.len() / 50) {
        let mut bad = good.clone();
        bad[at] ^= 0x41;
        fs::write(&entry, &bad).unwrap();
        let scanner = Scanner::with_cache(set(EXPRESSIONS), Some(&cache)).unwrap();
        assert_eq!(find(&scanner), whole, "byte {at}");
        assert_eq!(fs::read(&entry).unwrap(), good, "the entry was not written again");
    }
}

#[test]
fn a_cache_that_cannot_be_written_is_no_error() {
    let cache = CatalogCache::new("/proc/no-such-folder");
    assert_eq!(find(&Scanner::with_cache(set(EXPRESSIONS), Some(&cache)).unwrap()).len(), 4);
}
