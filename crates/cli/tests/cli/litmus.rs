//! `pelton litmus`.

use serde_json::Value;

use crate::{ScratchFolder, pelton};

#[test]
fn orders_are_kept_here() {
    for (device, rounds) in [("cpu", "2000"), ("reference", "100")] {
        let folder = ScratchFolder::new("litmus");
        let path = folder.path("rows.jsonl");
        let ran = pelton(&["litmus", "--device", device, "--rounds", rounds, "--json", &path]);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        assert!(ran.out.contains(": 0 forbidden outcomes"), "{}", ran.out);
        let text = String::from_utf8(folder.read("rows.jsonl")).expect("it is text");
        let rows: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
        // The cases that feed a session have no twin.
        for (orders, cases) in [("kept", 13), ("relaxed", 7)] {
            let of = rows.iter().filter(|row| row["orders"] == orders);
            let (played, skipped): (Vec<&Value>, Vec<&Value>) = of.partition(|row| row["skipped"].is_null());
            assert_eq!(played.len(), cases, "{text}");
            let most: u64 = rounds.parse().expect("it is a number");
            let least =
                |row: &Value| match row["case"].as_str().is_some_and(|case| case.starts_with("region")) {
                    true => (most / 200).max(1),
                    false => most,
                };
            assert!(played.iter().all(|row| row["rounds"].as_u64() >= Some(least(row))), "{text}");
            // Only where a line arrives in one store can eight lanes rely on it.
            let names: Vec<&Value> = skipped.iter().map(|row| &row["case"]).collect();
            assert_eq!(names, ["host to device, near, by eight lanes"], "{text}");
        }
    }
}

#[test]
fn cases_are_chosen_by_name() {
    let args = |only| ["litmus", "--device", "cpu", "--rounds", "1e2", "--only", only, "--json", "-"];
    let ran = pelton(&args("claim"));
    assert_eq!((ran.code, ran.out.lines().count()), (Some(0), 2), "{}{}", ran.out, ran.err);
    assert_eq!(pelton(&args("no such case")).code, Some(1));
}

#[test]
fn no_rounds_are_refused() {
    let ran = pelton(&["litmus", "--device", "cpu", "--rounds", "0"]);
    assert_eq!(ran.code, Some(64), "{}", ran.err);
    assert!(ran.err.contains("it must be from 1 to "), "{}", ran.err);
}
