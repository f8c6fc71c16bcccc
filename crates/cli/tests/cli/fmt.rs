//! `pelton fmt`.

use crate::{DOUBLE, ScratchFolder, pelton, pelton_with};

const LOOSE: &str = "; doubles\nbuffer x:[u32;?] global read_write\n\nkernel double{ %i=lane  ; who\n %v = load @x[%i]\n%w=add %v,%v store @x[%i],%w }\n";

#[test]
fn files_are_rewritten_in_place() {
    let folder = ScratchFolder::new("fmt");
    let (loose, good) = (folder.file("loose.pel", LOOSE), folder.file("good.pel", DOUBLE));
    let ran = pelton(&["fmt", "--check", &loose, &good]);
    assert_eq!((ran.code, ran.out), (Some(1), format!("{loose}\n")));
    assert_eq!(folder.read("loose.pel"), LOOSE.as_bytes());
    let ran = pelton(&["fmt", &loose, &good]);
    assert_eq!((ran.code, ran.out), (Some(0), format!("{loose}\n")));
    let text = String::from_utf8(folder.read("loose.pel")).expect("it is text");
    assert!(text.starts_with("; doubles\n") && text.contains("  ; who\n"), "{text}");
    assert_eq!(folder.read("good.pel"), DOUBLE.as_bytes());
    let ran = pelton(&["fmt", "--check", &loose, &good]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), ""));
    assert_eq!(
        std::fs::read_dir(&folder.0).map(Iterator::count).ok(),
        Some(2),
        "nothing is left beside them"
    );
}

#[test]
fn standard_input_goes_to_standard_output() {
    let ran = pelton_with(&["fmt", "-"], DOUBLE);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), DOUBLE));
    let ran = pelton_with(&["fmt", "--check", "-"], LOOSE);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), "<stdin>\n"));
}

#[test]
fn what_does_not_parse_stays_as_it_is() {
    let folder = ScratchFolder::new("fmt-bad");
    let (bad, loose) = (folder.file("bad.pel", "kernel {"), folder.file("loose.pel", LOOSE));
    let ran = pelton(&["fmt", &bad, &loose]);
    assert_eq!((ran.code, ran.out), (Some(1), format!("{loose}\n")));
    assert!(ran.err.contains("bad.pel:1:"), "{}", ran.err);
    assert_eq!(folder.read("bad.pel"), b"kernel {");
    assert_eq!(pelton(&["fmt", &folder.path("")]).code, Some(1));
}

#[cfg(unix)]
#[test]
fn links_and_permissions_survive() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = ScratchFolder::new("fmt-link");
    let loose = folder.file("loose.pel", LOOSE);
    let link = folder.path("link.pel");
    std::os::unix::fs::symlink(&loose, &link).expect("the link can be made");
    std::fs::set_permissions(&loose, std::fs::Permissions::from_mode(0o640)).expect("it is ours");
    assert_eq!(pelton(&["fmt", &link]).code, Some(0));
    assert!(std::fs::symlink_metadata(&link).is_ok_and(|meta| meta.is_symlink()));
    assert_ne!(folder.read("loose.pel"), LOOSE.as_bytes());
    let mode = std::fs::metadata(&loose).map(|meta| meta.permissions().mode() & 0o777).ok();
    assert_eq!(mode, Some(0o640));
}
