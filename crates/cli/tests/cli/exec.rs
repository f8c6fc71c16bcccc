//! `pelton exec`.

use serde_json::{Value, json};

use crate::{DOUBLE, ScratchFolder, exists, pelton_with};

fn exec(text: &str, args: &[&str]) -> crate::RunOutput {
    let all: Vec<&str> = ["exec", "-"].iter().chain(args).copied().collect();
    pelton_with(&all, text)
}

#[test]
fn a_module_without_one_kernel_says_what_it_has() {
    let kernels = "kernel a {\n  return\n}\n\nkernel b {\n  return\n}\n";
    let none = "fn a() {\n  return\n}\n";
    for (text, device, why) in [
        (none, "cpu", "the module has no kernel\n"),
        (kernels, "cpu", "the module has 2 kernels, so one must be named: a, b\n"),
        (none, "reference", "the module has no kernel\n"),
        (kernels, "reference", "the module has 2 kernels, so one must be named: a, b\n"),
    ] {
        let ran = pelton_with(&["exec", "-", "--device", device], text);
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        assert!(ran.err.ends_with(why), "{}", ran.err);
    }
    for way in
        [&["exec", "-", "--seed", "1"][..], &["emit", "-", "--to", "ptx"], &["emit", "-", "--to", "clif"]]
    {
        let ran = pelton_with(way, none);
        assert!(
            ran.code == Some(1) && ran.err.ends_with("the module has no kernel\n"),
            "{way:?}: {}",
            ran.err
        );
    }
}

#[test]
fn a_launch_of_nothing_says_what_it_needs() {
    for (flag, why) in [
        ("--lanes", "the number of lanes is 0, and cpu takes at least 1\n"),
        ("--groups", "the number of groups is 0, and every device takes at least 1\n"),
    ] {
        let ran = pelton_with(&["exec", "-", "--device", "cpu", "--buffer", "x=[1]", flag, "0"], DOUBLE);
        assert!(ran.code == Some(1) && ran.err.ends_with(why), "{}", ran.err);
    }
}

#[test]
fn buffers_are_printed() {
    let ran = exec(DOUBLE, &["--lanes", "4", "--buffer", "x=[1 2 3 4294967295]"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "x: [u32; 4] = [2 4 6 4294967294]\n"), "{}", ran.err);
    assert!(ran.err.starts_with("done: "), "{}", ran.err);
    let ran = exec(DOUBLE, &["--lanes=100", "--buffer", "x=iota:100", "--seed", "3"]);
    assert!(ran.out.starts_with("x: [u32; 100] = [0 2 4 "), "{}", ran.out);
    assert!(ran.out.contains(" … 68 more … "), "{}", ran.out);
}

#[test]
fn words_come_from_files_and_go_to_files() {
    let folder = ScratchFolder::new("exec-files");
    let words = folder.file("in.bin", [1, 0, 0, 0, 0, 1, 0, 0]);
    let (give, take) = (format!("x=@{words}"), format!("x={}", folder.path("out.bin")));
    let ran = exec(DOUBLE, &["--lanes", "2", "--buffer", &give, "--out", &take]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), ""), "{}", ran.err);
    assert_eq!(folder.read("out.bin"), [2, 0, 0, 0, 0, 2, 0, 0]);
    let ragged = format!("x=@{}", folder.file("ragged.bin", [1, 2, 3]));
    let ran = exec(DOUBLE, &["--buffer", &ragged]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("ragged.bin has 3 bytes, which is not a whole number of u32"), "{}", ran.err);
    for bad in [folder.path("missing.bin"), folder.path("")] {
        let ran = exec(DOUBLE, &["--buffer", &format!("x=@{bad}")]);
        assert_eq!(ran.code, Some(1));
        assert!(ran.err.contains(&bad), "{}", ran.err);
    }
}

#[test]
fn results_are_not_lost_for_want_of_a_folder() {
    let folder = ScratchFolder::new("exec-out");
    let missing = folder.path("no/out.bin");
    for out in [&missing, &folder.path("")] {
        let ran = exec(DOUBLE, &["--buffer", "x=zero:1", "--out", &format!("x={out}")]);
        assert_eq!(ran.code, Some(1));
        assert!(ran.err.contains("cannot write ") && !ran.err.contains("done"), "{}", ran.err);
    }
    assert!(!exists(missing));
}

#[test]
fn unknown_names_get_near_ones() {
    let text = DOUBLE.replace("x", "data");
    let ran = exec(&text, &["--buffer", "dat=zero:1"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("no buffer `dat`; did you mean data? there is data"), "{}", ran.err);
    let ran = exec(&text, &["--buffer", "data=zero:1", "--kernel", "dobule"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("no kernel `dobule`; did you mean double?"), "{}", ran.err);
    let ran = exec(&text, &["--buffer", "data=zero:1", "--out", "date=x.bin"]);
    assert!(ran.err.contains("no buffer `date`"), "{}", ran.err);
    let ran = exec(&text, &[]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.err.contains("buffer `data` has no fixed length, so its contents must be given"),
        "{}",
        ran.err
    );
}

#[test]
fn sizes_are_refused_before_memory_is_taken() {
    for init in ["x=zero:18446744073709551615", "x=iota:4294967296", "x=[1; 99999999999]"] {
        let ran = exec(DOUBLE, &["--buffer", init]);
        assert_eq!(ran.code, Some(1));
        assert!(ran.err.contains("more than the 4294967295 that a buffer may have"), "{}", ran.err);
    }
    let many: String = (0..3).map(|k| format!("buffer b{k}: [u64; 268435456] global read\n")).collect();
    let ran = exec(&format!("{many}\nkernel main {{\n}}\n"), &[]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("6442450944 bytes together"), "{}", ran.err);
    let ran = exec(DOUBLE, &["--buffer", "x=zero:1", "--lanes", "4294967295", "--groups", "4294967295"]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("cpu takes at most 1024"), "{}", ran.err);
}

/// A kernel that ends in the way that its first word says.
const ENDS: &str = "\
buffer how: [u32; 1] global read
buffer mark: [i32; 1] global read_write

kernel main {
  store @mark[0], -5i32
  %how = load @how[0]
  switch %how {
    case 1 {
      trap 7
    }
    case 2 {
      fault 9
    }
    default {
      forever {
        backoff 1000
      }
    }
  }
}
";

#[test]
fn a_bad_end_is_2_and_shows_where() {
    let ran = exec(ENDS, &["--buffer", "how=[1]"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), "mark: [i32; 1] = [-5]\n"), "{}", ran.err);
    assert!(ran.err.contains("trapped with code 7") && ran.err.contains("<stdin>:9:7"), "{}", ran.err);
    let ran = exec(ENDS, &["--buffer", "how=[2]"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("recorded fault 9") && ran.err.contains("<stdin>:12:7"), "{}", ran.err);
    let ran = exec(ENDS, &["--buffer", "how=[3]", "--deadline", "50ms"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("stopped at the deadline of 50ms"), "{}", ran.err);
}

fn parsed(ran: &crate::RunOutput) -> Value {
    serde_json::from_str(&ran.out).expect("the output is JSON")
}

#[test]
fn json_is_one_object() {
    let ran = exec(DOUBLE, &["--lanes", "2", "--buffer", "x=[1 2]", "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let mut found = parsed(&ran);
    assert!(found["seconds"].is_f64(), "{found}");
    found["seconds"].take();
    let expect = json!({
        "device": "cpu", "kernel": "double", "end": { "kind": "done" }, "fault": null, "steps": null, "seconds": null,
        "buffers": { "x": { "type": "u32", "len": 2, "values": [2, 4] } },
    });
    assert_eq!(found, expect);
    let ran = exec(ENDS, &["--buffer", "how=[1]", "--json"]);
    assert_eq!(ran.code, Some(2));
    let found = parsed(&ran);
    assert_eq!(
        found["end"],
        json!({ "kind": "trapped", "code": 7, "place": { "line": 9, "column": 7, "byte": ENDS.find("trap") } })
    );
    assert_eq!(found["buffers"]["mark"]["values"], json!([-5]));
    let found = parsed(&exec(ENDS, &["--buffer", "how=[2]", "--json"]));
    assert_eq!((&found["fault"]["code"], &found["fault"]["count"]), (&json!(9), &json!(1)));
}

#[test]
fn floats_that_json_lacks_are_words() {
    let text = "buffer f: [f32; 4] global read_write\n\nkernel main {\n}\n";
    let found = parsed(&exec(text, &["--buffer", "f=[0.5 nan -inf -0.0]", "--json"]));
    assert_eq!(found["buffers"]["f"]["values"], json!([0.5, "nan", "-inf", -0.0]));
}

#[test]
fn a_bad_module_is_refused() {
    let ran = exec("kernel main {\n  barier\n}\n", &[]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(ran.err.contains("<stdin>:2:3"), "{}", ran.err);
}

#[test]
fn an_op_that_no_device_has_is_shown() {
    let ran = exec("kernel main {\n  async_wait 1\n}\n", &[]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.err.contains("error[refused]: `async_wait`") && ran.err.contains("<stdin>:2:3"),
        "{}",
        ran.err
    );
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_stops_a_kernel_that_never_ends() {
    use std::process::{Command, Stdio};
    let folder = ScratchFolder::new("exec-stop");
    let file = folder.file("poll.pel", "kernel main {\n  forever {\n    backoff 1000\n  }\n}\n");
    let mut child = crate::command()
        .args(["exec", &file, "--deadline", "60s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let id = child.id();
    while !catches(id) {
        assert!(child.try_wait().is_ok_and(|ended| ended.is_none()), "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let kill = Command::new("kill").args(["-INT", &id.to_string()]).status().expect("kill is there");
    assert!(kill.success());
    let ran: crate::RunOutput = child.wait_with_output().expect("the program ends").into();
    assert_eq!(ran.code, Some(130), "{}", ran.err);
    assert!(ran.err.contains("interrupted: the kernel was stopped after"), "{}", ran.err);
}

/// Whether a process has installed its handler for Ctrl-C.
#[cfg(target_os = "linux")]
fn catches(id: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
    const INTERRUPT: u64 = 1 << 1;
    u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & INTERRUPT != 0)
}

#[test]
fn every_device_gives_the_same() {
    for device in
        [&["--device", "cpu"][..], &["--device", "cpu:1"], &["--device", "reference"], &["--seed", "3"]]
    {
        let ran = exec(DOUBLE, &[&["--lanes", "3", "--buffer", "x=[1 2 9]"], device].concat());
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), "x: [u32; 3] = [2 4 18]\n"), "{}", ran.err);
    }
    let ran = exec(DOUBLE, &["--seed", "3", "--buffer", "x=[1]", "--json"]);
    assert!(parsed(&ran)["steps"].as_u64().is_some_and(|steps| steps > 0), "{}", ran.out);
    let ran = exec(DOUBLE, &["--device", "abacus", "--buffer", "x=[1]"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("cpu, cpu:N, reference"), "{}", ran.err);
}
