//! The cache of compiled code on disk.
//!
//! An entry is a file that is named by a hash of its *key*: the source, the target and the version of the compiler. The file holds
//! the key itself, so two keys with the same hash are told apart, and a checksum, so a damaged file counts as absent. A file is
//! written under another name and then renamed, so readers see only whole entries. A cache that cannot be read or written is not an
//! error: code is then compiled again.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// The bytes that an entry begins with. They change with the layout of entries.
const MAGIC: &[u8; 8] = b"pelton\x00\x01";

/// How many bytes come before the key: the magic, the checksum and the length of the key.
const HEAD: usize = 24;

/// The number of the next file that is being written, which makes its name unique in the process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// The folder where compiled code is kept by default: the value of the environment variable `PELTON_CACHE`, or else the folder
/// `pelton` among the user's caches. `None` if `PELTON_CACHE` is `off`.
pub fn folder() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let own = set("PELTON_CACHE");
    if own.as_deref() == Some(Path::new("off")) {
        return None;
    }
    let user = || set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    own.or_else(|| user().map(|caches| caches.join("pelton")))
}

/// The code that was stored under a key, if it is there and not damaged.
pub fn get(folder: &Path, key: &str) -> Option<Vec<u8>> {
    let bytes = fs::read(path(folder, key)).ok()?;
    let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let whole = bytes.get(..8)? == MAGIC && word(8)? == hash(bytes.get(16..)?);
    let end = HEAD.checked_add(usize::try_from(word(16)?).ok()?)?;
    let same = whole && bytes.get(HEAD..end)? == key.as_bytes();
    same.then(|| bytes[end..].to_vec())
}

/// Stores code under a key, and replaces what was there.
pub fn put(folder: &Path, key: &str, value: &[u8]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut rest = (key.len() as u64).to_le_bytes().to_vec();
    rest.extend_from_slice(key.as_bytes());
    rest.extend_from_slice(value);
    let bytes = [&MAGIC[..], &hash(&rest).to_le_bytes(), &rest].concat();
    // Relaxed: nothing else is published with the number.
    let unlike = format!("{}.{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = path(folder, key);
    let aside = path.with_extension(unlike);
    let written = fs::write(&aside, bytes).and_then(|()| fs::rename(&aside, &path));
    written.inspect_err(|_| drop(fs::remove_file(&aside)))
}

fn path(folder: &Path, key: &str) -> PathBuf {
    folder.join(format!("{:016x}.cubin", hash(key.as_bytes())))
}

/// The FNV-1a hash, which is the same in every build, unlike the hashes of maps.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of its own for a test, removed afterwards.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            Scratch(env::temp_dir().join(format!("pelton-cache-{name}-{}", process::id())))
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_is_put_is_got() {
        let scratch = Scratch::new("put");
        assert_eq!(get(&scratch.0, "a"), None);
        put(&scratch.0, "a", b"one").expect("the folder is made");
        put(&scratch.0, "b", b"").expect("an empty entry is one");
        assert_eq!(get(&scratch.0, "a").as_deref(), Some(&b"one"[..]));
        assert_eq!(get(&scratch.0, "b").as_deref(), Some(&b""[..]));
        put(&scratch.0, "a", b"two").expect("an entry is replaced");
        assert_eq!(get(&scratch.0, "a").as_deref(), Some(&b"two"[..]));
        let files = fs::read_dir(&scratch.0).expect("it is there");
        assert_eq!(files.count(), 2, "nothing is left beside the entries");
    }

    #[test]
    fn a_damaged_entry_is_none() {
        let scratch = Scratch::new("damaged");
        put(&scratch.0, "key", b"some code").expect("it is written");
        let file = path(&scratch.0, "key");
        let whole = fs::read(&file).expect("it is there");
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x40;
            fs::write(&file, &bytes).expect("it is written");
            assert_eq!(get(&scratch.0, "key"), None, "byte {at} is wrong");
            fs::write(&file, &whole[..at]).expect("it is written");
            assert_eq!(get(&scratch.0, "key"), None, "it ends at byte {at}");
        }
        put(&scratch.0, "key", b"some code").expect("it is written again");
        assert!(get(&scratch.0, "key").is_some());
    }

    #[test]
    fn keys_of_one_hash_are_told_apart() {
        let scratch = Scratch::new("keys");
        put(&scratch.0, "mine", b"mine").expect("it is written");
        fs::rename(path(&scratch.0, "mine"), path(&scratch.0, "yours")).expect("it is moved");
        assert_eq!(get(&scratch.0, "yours"), None);
    }
}
