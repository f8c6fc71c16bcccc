//! The cases of one set of rules, and what is measured in each.

/// A contender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Who {
    /// `aho-corasick` over the literals.
    Literals,
    /// Stages one and two.
    Candidates,
    /// Hyperscan, and `regex` for what it reports.
    Hyperscan,
    /// `aho-corasick` over the literals, and `regex` for every rule with a literal in the file.
    LiteralsAndRegex,
    /// A set of the `regex` crate, and `regex` for what it reports.
    RegexSet,
    /// All stages, in memory.
    Memory(ThreadUse),
    /// All stages, one large file.
    LargeFile(ThreadUse),
    /// ripgrep over a tree of files.
    Ripgrep,
    /// All stages, a tree of files.
    Tree(ThreadUse),
}

/// How many threads a contender uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ThreadUse {
    /// One.
    One,
    /// As many as the machine has cores.
    All,
}

impl ThreadUse {
    /// The number of threads on this machine.
    pub(super) fn count(self) -> usize {
        match self {
            ThreadUse::One => 1,
            ThreadUse::All => std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// A case: a contender, and the names of the cases that it is compared with.
pub(super) struct ScanCase {
    /// The name, without that of the set of rules.
    pub name: &'static str,
    /// Who is measured.
    pub who: Who,
    /// What the row's device is.
    pub device: &'static str,
    /// The cases that it is compared with.
    pub against: &'static [&'static str],
}

const LITERALS: &str = "aho-corasick";
const HYPERSCAN: &str = "hyperscan + regex";
const LITERALS_AND_REGEX: &str = "aho-corasick + regex";
const REGEX_SET: &str = "regex set + regex";
const RIPGREP: &str = "ripgrep, tree";
const MEMORY: &str = "in memory";
const LARGE_FILE: &str = "large file";
const TREE: &str = "tree";

/// The cases of every set, in the order of their rows. All are measured in the same rounds.
pub(super) const CASES: [ScanCase; 12] = [
    case(LITERALS, Who::Literals, "rust", &[]),
    case("factors and windows", Who::Candidates, "cpu", &[LITERALS]),
    case(HYPERSCAN, Who::Hyperscan, "hyperscan", &[]),
    case(LITERALS_AND_REGEX, Who::LiteralsAndRegex, "rust", &[]),
    case(REGEX_SET, Who::RegexSet, "rust", &[]),
    case(MEMORY, Who::Memory(ThreadUse::One), "cpu", &[HYPERSCAN, LITERALS_AND_REGEX, REGEX_SET]),
    case("in memory, all threads", Who::Memory(ThreadUse::All), "cpu", &[MEMORY]),
    case(LARGE_FILE, Who::LargeFile(ThreadUse::One), "cpu", &[MEMORY]),
    case("large file, all threads", Who::LargeFile(ThreadUse::All), "cpu", &[LARGE_FILE]),
    case(RIPGREP, Who::Ripgrep, "ripgrep", &[]),
    case(TREE, Who::Tree(ThreadUse::One), "cpu", &[MEMORY, RIPGREP]),
    case("tree, all threads", Who::Tree(ThreadUse::All), "cpu", &[TREE]),
];

const fn case(
    name: &'static str,
    who: Who,
    device: &'static str,
    against: &'static [&'static str],
) -> ScanCase {
    ScanCase { name, who, device, against }
}

/// The name of a row.
pub(super) fn case_name(set: &str, case: &str) -> String {
    format!("{set}, {case}")
}

/// The cases of a set that are wanted for their own row, or because a wanted case is compared with them.
pub(super) fn wanted_cases(set: &str, only: &str) -> Vec<&'static ScanCase> {
    let is_shown = |case: &ScanCase| case_name(set, case.name).contains(only);
    let is_needed = |case: &&ScanCase| {
        is_shown(case) || CASES.iter().any(|other| is_shown(other) && other.against.contains(&case.name))
    };
    CASES.iter().filter(is_needed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_brings_what_it_is_compared_with() {
        let names = |only| -> Vec<&str> { wanted_cases("easy", only).iter().map(|case| case.name).collect() };
        assert_eq!(names("easy, large file, all"), [LARGE_FILE, "large file, all threads"]);
        assert_eq!(names("hard, "), [""; 0]);
        assert_eq!(names("").len(), CASES.len());
    }

    #[test]
    fn what_cases_are_compared_with_exists() {
        for case in &CASES {
            assert!(
                case.against.iter().all(|name| CASES.iter().any(|peer| peer.name == *name)),
                "{}",
                case.name
            );
        }
    }
}
