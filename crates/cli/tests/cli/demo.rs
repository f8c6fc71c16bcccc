//! `pelton demo`: what it checks, how it is stopped, and what a killed demo leaves behind.

use crate::{RunOutput, pelton, pelton_with};

#[test]
fn every_result_is_right() {
    for args in [["--device", "cpu", "--tasks", "20000"], ["--device", "reference", "--tasks", "2000"]] {
        let ran = pelton(&[&["demo"][..], &args].concat());
        assert_eq!(ran.code, Some(0), "{args:?}: {}", ran.err);
        assert!(ran.out.contains("right: every result"), "{args:?}: {}", ran.out);
        assert!(ran.out.contains("  out of region\n"), "{args:?}: {}", ran.out);
        assert!(ran.err.is_empty(), "{args:?}: {}", ran.err);
    }
}

#[test]
fn spans_of_any_length_are_right() {
    for tasks in ["1", "19", "257"] {
        let ran = pelton(&["demo", "--device", "cpu:1", "--tasks", tasks, "--json"]);
        assert_eq!(ran.code, Some(0), "{tasks}: {}", ran.err);
        let report: serde_json::Value = serde_json::from_str(&ran.out).expect("it is JSON");
        assert_eq!(report["tasks"].to_string(), tasks);
        assert_eq!((&report["wrong"], &report["interrupted"]), (&0.into(), &false.into()));
        assert!(report["idle"]["samples"].as_u64() > Some(0), "{report}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn it_goes_on_after_its_device_was_lost() {
    for device in ["cpu", "process:reference", "process:warm:cpu:1"] {
        let ran = pelton(&["demo", "--lose-device", "--device", device, "--tasks", "100000", "--json"]);
        assert_eq!(ran.code, Some(0), "{device}: {}", ran.err);
        let report: serde_json::Value = serde_json::from_str(&ran.out).expect("it is JSON");
        assert_eq!((&report["tasks"], &report["wrong"]), (&100_000.into(), &0.into()), "{report}");
        assert!(report["lost_after"].as_u64() >= Some(50_000) && report["recoveries"] == 1, "{report}");
    }
    let ran = pelton(&["demo", "--lose-device", "--tasks", "50000", "--device", "cpu"]);
    assert!(ran.out.contains("process:cpu was lost with its process"), "{}", ran.out);
    assert!(ran.out.ends_with("right: every task ended once, with its result\n"), "{}", ran.out);
    let ran = pelton(&["demo", "--lose-device", "--device", "no-such-device"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("process:no-such-device"), "{}", ran.err);
}

#[test]
fn its_kernel_is_a_module_like_others() {
    let text = pelton(&["demo", "--text", "--device", "cpu"]);
    let ran = pelton_with(&["check", "-"], &text.out);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(pelton_with(&["fmt", "--check", "-"], &text.out).code, Some(0));
    assert_eq!(pelton(&["demo", "--tasks", "0"]).code, Some(64));
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::os::unix::process::CommandExt;
    use std::path::PathBuf;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    use super::RunOutput;
    use crate::{ScratchFolder, command};

    /// Starts a demo that would run for days, in a process group of its own, and waits until its feeders are at
    /// work.
    fn started(folder: &ScratchFolder) -> Child {
        let mut command = command();
        command.args(["demo", "--device", "cpu", "--tasks", "1000000000000"]);
        for home in ["TMPDIR", "HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"] {
            command.env(home, &folder.0);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().expect("the program starts");
        while !feeds(child.id()) {
            assert!(child.try_wait().is_ok_and(|ended| ended.is_none()), "it ended by itself");
            std::thread::sleep(Duration::from_millis(5));
        }
        child
    }

    /// Whether a process has a feeder's thread.
    fn feeds(id: u32) -> bool {
        let threads = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
        threads
            .filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok())
            .any(|name| name.starts_with("feeder-"))
    }

    #[test]
    fn ctrl_c_gives_a_partial_report() {
        let folder = ScratchFolder::new("demo-stop");
        let child = started(&folder);
        let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(sent.expect("kill is there").success());
        let ran: RunOutput = child.wait_with_output().expect("the program ends").into();
        assert_eq!(ran.code, Some(130), "{}", ran.err);
        assert!(ran.out.contains("interrupted: "), "{}", ran.out);
        assert!(ran.out.contains("right: every result"), "{}", ran.out);
    }

    /// The processes of a group.
    fn members(group: u32) -> Vec<u32> {
        let of = |path: PathBuf| {
            let stat = fs::read_to_string(path.join("stat")).ok()?;
            let (head, tail) = stat.rsplit_once(')')?;
            let found = tail.split_whitespace().nth(2)?;
            (found == group.to_string()).then(|| head.split(' ').next()?.parse().ok()).flatten()
        };
        fs::read_dir("/proc")
            .expect("there is /proc")
            .flatten()
            .filter_map(|entry| of(entry.path()))
            .collect()
    }

    /// The files that a process has open.
    fn open(id: u32) -> Vec<PathBuf> {
        let entries = fs::read_dir(format!("/proc/{id}/fd")).expect("it can be read").flatten();
        entries.filter_map(|entry| fs::read_link(entry.path()).ok()).collect()
    }

    #[test]
    fn a_killed_one_leaves_nothing_behind() {
        let folder = ScratchFolder::new("demo-kill");
        let mut child = started(&folder);
        let id = child.id();
        // While the demo runs it is one process, without a file or shared memory that could outlive it.
        assert_eq!(members(id), [id]);
        let ours = open(std::process::id());
        for path in open(id).iter().filter(|path| !ours.contains(path)) {
            let brief = ["pipe:", "socket:", "anon_inode:", "/dev/null"];
            assert!(brief.iter().any(|kind| path.to_string_lossy().starts_with(kind)), "{path:?} is open");
        }
        let maps = fs::read_to_string(format!("/proc/{id}/maps")).expect("it can be read");
        let shared = maps.lines().find(|line| line.contains("/dev/shm/") || line.contains("/SYSV"));
        assert_eq!(shared, None);
        child.kill().expect("it can be killed");
        child.wait().expect("it can be waited for");
        assert_eq!(members(id), [0u32; 0]);
        assert!(!PathBuf::from(format!("/proc/{id}")).exists());
        assert_eq!(fs::read_dir(&folder.0).expect("it is there").count(), 0);
        let segments = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
        let creator = |line: &str| line.split_whitespace().nth(4).map(str::to_owned);
        assert!(!segments.lines().filter_map(creator).any(|found| found == id.to_string()), "{segments}");
    }
}
