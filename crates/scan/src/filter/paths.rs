//! Paths as bytes, in the form that expressions of rules are written for.

use std::borrow::Cow;
use std::path::Path;

/// Returns the bytes of a path with `/` between its parts and without `./` at its beginning, so that `^src/` means the
/// same wherever and on whatever system a scan is started.
pub(super) fn path_bytes(path: &Path) -> Cow<'_, [u8]> {
    #[cfg(unix)]
    let bytes = Cow::Borrowed(std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()));
    #[cfg(not(unix))]
    let bytes = Cow::<[u8]>::Owned(path.to_string_lossy().replace('\\', "/").into_bytes());
    match bytes {
        Cow::Borrowed(bytes) => Cow::Borrowed(bytes.strip_prefix(b"./").unwrap_or(bytes)),
        Cow::Owned(mut bytes) => {
            if bytes.starts_with(b"./") {
                bytes.drain(..2);
            }
            Cow::Owned(bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_folder_is_no_part_of_a_path() {
        assert_eq!(&*path_bytes(Path::new("./src/main.rs")), b"src/main.rs");
        assert_eq!(&*path_bytes(Path::new(".env")), b".env");
        assert_eq!(&*path_bytes(Path::new("../a")), b"../a");
        assert_eq!(&*path_bytes(Path::new("/a/b")), b"/a/b");
    }
}
