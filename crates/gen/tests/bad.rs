//! Texts that are almost right are refused or parsed, and nothing panics.

use std::fs;
use std::path::{Path, PathBuf};

use pelton_gen::choose::{Bytes, Choose, Seed};
use pelton_gen::config::{GeneratorConfig, Promise};
use pelton_gen::hold::smallest_failure;
use pelton_gen::mutate::mutate;
use pelton_gen::{fuzz, make};
use pelton_ir::text;

#[test]
fn almost_right_texts_do_no_harm() {
    let texts = texts();
    let spoil = |bytes: &[u8]| {
        let choose: &mut dyn Choose = &mut Bytes(bytes);
        let mut text = texts[choose.below(texts.len())].clone().into_bytes();
        mutate(choose, &mut text);
        text
    };
    if let Some((bytes, why)) = smallest_failure(2000, 64, |bytes| fuzz::parse(&spoil(bytes))) {
        panic!("{why}\nof this text:\n{}", String::from_utf8_lossy(&spoil(&bytes)));
    }
}

/// The texts of all filetests, and of some generated modules.
fn texts() -> Vec<String> {
    let mut files = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests"), &mut files);
    assert!(files.len() > 10, "the filetests are not where they were");
    let config = GeneratorConfig { insts: 60, promise: Promise::Nothing, ..GeneratorConfig::DEFAULT };
    let made = (0..50).map(|seed| text::print(&make::module(&mut Seed(seed), &config)));
    files.iter().map(|path| fs::read_to_string(path).expect("a filetest can be read")).chain(made).collect()
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).expect("a folder can be read");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry can be read").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            walk(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "pel") {
            files.push(path);
        }
    }
}
