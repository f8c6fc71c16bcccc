//! The cache of catalogs on disk.
//!
//! An entry is a file that is named by a hash of its key. The file holds the key itself, so that two keys with the same
//! hash are told apart, and a checksum. It is written under another name and then renamed, so readers see only whole
//! entries and several writers do not disturb each other. A cache that cannot be read or written is no error: the
//! catalog is then built again.
//!
//! The number of entries is bounded. The time of a file's last modification is the time at which its entry was last used,
//! and whoever stores an entry removes those that have not been used for the longest time.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;
use std::{env, fs, io, process};

use super::Catalog;
use super::bytes::{ByteReader, ByteWriter, checksum};

/// The bytes that an entry begins with. They change with the layout of entries.
const MAGIC: [u8; 8] = *b"plcache\x01";

/// The largest number of entries.
const ENTRIES_MAX: usize = 32;

/// The ending of the names of entries.
const EXTENSION: &str = "catalog";

/// The number of the next file that is being written, which makes its name unique in the process.
static NEXT_FILE: AtomicU32 = AtomicU32::new(0);

/// A folder in which catalogs are kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CatalogCache {
    folder: PathBuf,
}

/// A catalog that was kept in a cache.
#[derive(Clone, PartialEq, Debug)]
pub struct StoredCatalog {
    /// The catalog.
    pub catalog: Catalog,
    /// What the caller stored beside it.
    pub notes: Vec<u8>,
}

impl CatalogCache {
    /// Uses a folder, which is made when the first catalog is stored.
    pub fn new(folder: impl Into<PathBuf>) -> CatalogCache {
        CatalogCache { folder: folder.into() }
    }

    /// Uses the folder that Pelton keeps compiled code in: the value of the environment variable `PELTON_CACHE`, or else
    /// the folder `pelton` among the user's caches. Returns `None` if `PELTON_CACHE` is `off` or no folder is known.
    pub fn from_environment() -> Option<CatalogCache> {
        default_folder(|name| env::var_os(name).map(PathBuf::from)).map(CatalogCache::new)
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the catalog that was stored under a key, or `None` if there is none or it is damaged or of another
    /// version.
    ///
    /// The key must contain everything that the catalog depends on, for example a hash of all rules.
    pub fn load(&self, key: &[u8]) -> Option<StoredCatalog> {
        let path = self.path(key);
        let bytes = fs::read(&path).ok()?;
        let mut reader = ByteReader::new(&bytes);
        if reader.array()? != MAGIC || reader.u64()? != checksum(bytes.get(MAGIC.len() + 8..)?) {
            return None;
        }
        let stored_key = reader.u8_list()?;
        let notes = reader.u8_list()?;
        let length = reader.length(1)?;
        let catalog = Catalog::from_bytes(reader.raw(length)?).ok()?;
        reader.end()?;
        if stored_key != key {
            return None;
        }
        // Where this is not allowed, the entry only seems older than it is.
        let _ =
            fs::File::options().write(true).open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        Some(StoredCatalog { catalog, notes })
    }

    /// Stores a catalog under a key, with notes that only the caller understands, and replaces what was there. If there
    /// are then more than 32 catalogs, those that have not been used for the longest time are removed.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written. A caller that can do without the cache ignores the error.
    pub fn store(&self, key: &[u8], catalog: &Catalog, notes: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let mut rest = ByteWriter::default();
        rest.u8_list(key);
        rest.u8_list(notes);
        rest.u8_list(&catalog.to_bytes());
        let rest = rest.finish();
        let bytes = [&MAGIC[..], &checksum(&rest).to_le_bytes(), &rest].concat();
        // Relaxed: nothing else is published with the number.
        let unique = format!("{}.{}", process::id(), NEXT_FILE.fetch_add(1, Ordering::Relaxed));
        let path = self.path(key);
        let aside = path.with_extension(unique);
        let written = fs::write(&aside, bytes).and_then(|()| fs::rename(&aside, &path));
        written.inspect_err(|_| drop(fs::remove_file(&aside)))?;
        self.remove_oldest(&path);
        Ok(())
    }

    /// Removes the oldest entries if there are too many, but not the one at `newest`. What cannot be removed stays.
    fn remove_oldest(&self, newest: &Path) {
        let Ok(files) = fs::read_dir(&self.folder) else { return };
        let mut entries: Vec<(SystemTime, PathBuf)> = files
            .flatten()
            .map(|file| (file.metadata().and_then(|meta| meta.modified()), file.path()))
            .filter(|(_, path)| path.extension().is_some_and(|ending| ending == EXTENSION) && path != newest)
            .filter_map(|(used, path)| Some((used.ok()?, path)))
            .collect();
        entries.sort_unstable();
        for (_, path) in entries.iter().rev().skip(ENTRIES_MAX - 1) {
            let _ = fs::remove_file(path);
        }
    }

    fn path(&self, key: &[u8]) -> PathBuf {
        self.folder.join(format!("{:016x}.{EXTENSION}", checksum(key)))
    }
}

/// Returns the folder for caches; `variable` yields the values of environment variables.
fn default_folder(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let set = |name| variable(name).filter(|value| !value.as_os_str().is_empty());
    match set("PELTON_CACHE") {
        Some(own) if own == Path::new("off") => None,
        Some(own) => Some(own),
        None => {
            let user = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
            user.map(|caches| caches.join("pelton"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::engine::oracle::{literal, literal_rule};

    /// A folder of its own for a test, removed afterwards.
    struct CacheFolder(PathBuf);

    impl CacheFolder {
        fn new(name: &str) -> CacheFolder {
            CacheFolder(env::temp_dir().join(format!("pelton-catalogs-{name}-{}", process::id())))
        }
    }

    impl Drop for CacheFolder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn catalog(word: &str) -> Catalog {
        Catalog::build(&[literal_rule(&[literal(word, 0)], &format!("{word}[0-9]"))]).unwrap()
    }

    #[test]
    fn what_is_stored_is_loaded() {
        let scratch = CacheFolder::new("store");
        let cache = CatalogCache::new(&scratch.0);
        assert_eq!(cache.load(b"one"), None);
        cache.store(b"one", &catalog("one"), b"notes").unwrap();
        cache.store(b"two", &catalog("two"), b"").unwrap();
        let expected = StoredCatalog { catalog: catalog("one"), notes: b"notes".to_vec() };
        assert_eq!(cache.load(b"one"), Some(expected));
        cache.store(b"one", &catalog("two"), b"").unwrap();
        assert_eq!(cache.load(b"one"), cache.load(b"two"));
        assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 2, "nothing is left beside the entries");
    }

    #[test]
    fn entries_that_are_no_longer_used_are_removed() {
        let scratch = CacheFolder::new("bound");
        let cache = CatalogCache::new(&scratch.0);
        let keys: Vec<[u8; 2]> = (0..ENTRIES_MAX as u8 + 3).map(|number| [b'k', number]).collect();
        let (old, new) = keys.split_at(ENTRIES_MAX);
        for (key, seconds) in old.iter().zip(1000..) {
            cache.store(key, &catalog("old"), b"").unwrap();
            let used = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            fs::File::options().write(true).open(cache.path(key)).unwrap().set_modified(used).unwrap();
        }
        fs::write(scratch.0.join("other.bin"), b"not an entry").unwrap();
        // The oldest one is used again.
        assert!(cache.load(&old[0]).is_some());
        for key in new {
            cache.store(key, &catalog("new"), b"").unwrap();
        }
        let gone: Vec<usize> =
            (0..keys.len()).filter(|&number| !cache.path(&keys[number]).exists()).collect();
        assert_eq!(gone, [1, 2, 3]);
        assert!(scratch.0.join("other.bin").exists());
    }

    #[test]
    fn a_damaged_or_foreign_entry_is_absent() {
        let scratch = CacheFolder::new("damage");
        let cache = CatalogCache::new(&scratch.0);
        cache.store(b"k", &catalog("k"), b"n").unwrap();
        let whole = fs::read(cache.path(b"k")).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x20;
            fs::write(cache.path(b"k"), &bytes).unwrap();
            assert_eq!(cache.load(b"k"), None, "byte {at} is wrong");
            fs::write(cache.path(b"k"), &whole[..at]).unwrap();
            assert_eq!(cache.load(b"k"), None, "it ends at byte {at}");
        }
        fs::write(cache.path(b"other"), &whole).unwrap();
        assert_eq!(cache.load(b"other"), None, "it was stored under another key");
    }

    #[test]
    fn several_writers_and_readers_see_whole_entries() {
        let scratch = CacheFolder::new("writers");
        let cache = CatalogCache::new(&scratch.0);
        let catalogs = [catalog("a"), catalog("bb"), catalog("ccc")];
        cache.store(b"k", &catalogs[0], b"").unwrap();
        thread::scope(|scope| {
            for mine in &catalogs {
                scope.spawn(|| (0..30).for_each(|_| cache.store(b"k", mine, b"").unwrap()));
            }
            for _ in 0..100 {
                assert!(catalogs.contains(&cache.load(b"k").unwrap().catalog));
            }
        });
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_reported_and_loads_nothing() {
        let scratch = CacheFolder::new("file");
        fs::write(&scratch.0, b"a file").unwrap();
        let cache = CatalogCache::new(scratch.0.join("folder"));
        assert!(cache.store(b"k", &catalog("k"), b"").is_err());
        assert_eq!(cache.load(b"k"), None);
        fs::remove_file(&scratch.0).unwrap();
    }

    #[test]
    fn the_default_folder_is_that_of_the_rest_of_pelton() {
        let folder = |list: &[(&str, &str)]| {
            default_folder(|name| list.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
        };
        assert_eq!(folder(&[("PELTON_CACHE", "/c"), ("HOME", "/h")]), Some("/c".into()));
        assert_eq!(folder(&[("PELTON_CACHE", "off"), ("HOME", "/h")]), None);
        assert_eq!(folder(&[("PELTON_CACHE", ""), ("HOME", "/h")]), Some("/h/.cache/pelton".into()));
        assert_eq!(folder(&[("XDG_CACHE_HOME", "/x"), ("HOME", "/h")]), Some("/x/pelton".into()));
        assert_eq!(folder(&[]), None);
    }
}
