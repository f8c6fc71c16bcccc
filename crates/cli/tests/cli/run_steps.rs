//! `pelton run` with tasks that take several steps.

use serde_json::{Value, json};

use crate::{ScratchFolder, pelton_with};

/// A spec whose handler `count` yields as often as its argument says, and gives the number of its steps.
const SPEC: &str = r#"
cells = 4

[geometry]
slots = 64

[[handler]]
name = "count"
text = '''
import fn yield_now()
buffer arg: [u32; 12] global read
buffer frame: [u32; 1] global read_write

fn count() -> u32 {
  %before = load @frame[0]
  %now = add %before, 1
  store @frame[0], %now
  %all = load @arg[0]
  %more = le %now, %all
  if %more {
    call yield_now()
    yield
  }
  return %now
}
'''
"#;

fn results(spec: &str, options: &[&str]) -> (Vec<Value>, String) {
    let folder = ScratchFolder::new("run-steps");
    let spec = folder.file("spec.toml", spec);
    let lines: String = (0..50).map(|k| format!("{{\"op\": \"count\", \"args\": [{k}]}}\n")).collect();
    let ran = pelton_with(&[&["run", &spec, "--stats"], options].concat(), &lines);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let results = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (results, ran.err)
}

/// There are far more lines than cells, so the run has to wait for cells.
#[test]
fn more_resumable_tasks_than_cells_run_one_after_the_other() {
    let drained = format!("lifetime = \"drain\"\n{SPEC}");
    for (spec, shown) in [(SPEC, "0 of 4 used"), (&*drained, "1275 begun, 1225 yields")] {
        let (results, stats) = results(spec, &[]);
        assert_eq!(results.len(), 50);
        for (result, k) in results.iter().zip(0..) {
            assert_eq!(result["result"], json!(k + 1), "{result}");
        }
        assert!(stats.contains(shown), "{stats}");
    }
}

#[test]
fn a_handler_that_waits_for_a_host_is_refused() {
    let folder = ScratchFolder::new("run-park");
    let spec = SPEC.replace("yield_now", "park");
    let ran = pelton_with(&["run", &folder.file("spec.toml", &spec)], "{\"op\": \"count\"}\n");
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("handler \"count\" imports `park`"), "{}", ran.err);
}
