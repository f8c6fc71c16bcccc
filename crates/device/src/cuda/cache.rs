//! Compiled code on disk, found by what it was compiled from.
//!
//! An entry is a file named by a hash of its *key*: what was compiled, for what, by what. The file holds the key itself,
//! so two keys of one hash are told apart, and a checksum, so a file that was cut short or changed counts as none. It
//! is written beside and renamed, so readers see whole entries alone. A cache that cannot be read or written is no
//! error: things are compiled again.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// What an entry begins with; another layout has another.
const MAGIC: &[u8; 8] = b"pelton\x00\x01";

/// Bytes before the key: magic, checksum, length of the key.
const HEAD: usize = 24;

/// Makes names of files under way unlike each other.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Where compiled code is kept unless said otherwise: `PELTON_CACHE`, which may be `off`, or a folder of the user's
/// caches.
pub fn folder() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let own = set("PELTON_CACHE");
    if own.as_deref() == Some(Path::new("off")) {
        return None;
    }
    let user = || set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    own.or_else(|| user().map(|caches| caches.join("pelton")))
}

/// What was stored under a key.
pub fn get(folder: &Path, key: &str) -> Option<Vec<u8>> {
    let bytes = fs::read(path(folder, key)).ok()?;
    let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let whole = bytes.get(..8)? == MAGIC && word(8)? == hash(bytes.get(16..)?);
    let end = HEAD.checked_add(usize::try_from(word(16)?).ok()?)?;
    let same = whole && bytes.get(HEAD..end)? == key.as_bytes();
    same.then(|| bytes[end..].to_vec())
}

/// Stores something under a key.
pub fn put(folder: &Path, key: &str, value: &[u8]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut rest = (key.len() as u64).to_le_bytes().to_vec();
    rest.extend_from_slice(key.as_bytes());
    rest.extend_from_slice(value);
    let bytes = [&MAGIC[..], &hash(&rest).to_le_bytes(), &rest].concat();
    // Relaxed: the number alone is shared.
    let unlike = format!("{}.{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = path(folder, key);
    let aside = path.with_extension(unlike);
    let written = fs::write(&aside, bytes).and_then(|()| fs::rename(&aside, &path));
    written.inspect_err(|_| drop(fs::remove_file(&aside)))
}

fn path(folder: &Path, key: &str) -> PathBuf {
    folder.join(format!("{:016x}.cubin", hash(key.as_bytes())))
}

/// FNV-1a: the same in every build, unlike the hashes of maps.
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
