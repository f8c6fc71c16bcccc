//! Allow-lists that are ready to be used.

use crate::filter::words::WordFinder;
use crate::filter::{DropReason, FilterView};
use crate::rule::{AllowCondition, AllowList, AllowTarget};

/// An allow-list whose stop words form one automaton.
#[derive(Debug)]
pub(super) struct PreparedAllowList {
    list: AllowList,
    stopwords: WordFinder,
}

impl PreparedAllowList {
    pub(super) fn new(list: &AllowList) -> PreparedAllowList {
        PreparedAllowList { list: list.clone(), stopwords: WordFinder::new(&list.stopwords) }
    }

    /// Returns whether the list allows everything in a file, so that the file need not be searched.
    pub(super) fn allows_file(&self, path: &[u8]) -> bool {
        let path_suffices = match self.list.condition {
            AllowCondition::Any => true,
            AllowCondition::All => self.list.regexes.is_empty() && self.stopwords.is_empty(),
        };
        path_suffices && self.allows_path(path)
    }

    /// Returns why the list allows a match, or `None` if it does not.
    pub(super) fn reason(&self, view: &FilterView<'_>, path: &[u8]) -> Option<DropReason> {
        let list = &self.list;
        // The cheap conditions come first.
        let checks = [
            (!self.stopwords.is_empty(), DropReason::Stopword),
            (!list.paths.is_empty(), DropReason::Path),
            (!list.regexes.is_empty(), DropReason::AllowList),
        ];
        let mut given = checks.into_iter().filter(|(is_given, _)| *is_given).map(|(_, reason)| reason);
        let holds = |reason: &DropReason| match reason {
            DropReason::Stopword => self.stopwords.is_in(view.secret),
            DropReason::Path => self.allows_path(path),
            _ => self.allows_text(view),
        };
        match list.condition {
            AllowCondition::Any => given.find(holds),
            AllowCondition::All => {
                let first = given.next()?;
                (holds(&first) && given.all(|reason| holds(&reason))).then_some(DropReason::AllowList)
            }
        }
    }

    fn allows_path(&self, path: &[u8]) -> bool {
        self.list.paths.iter().any(|regex| regex.is_match(path))
    }

    fn allows_text(&self, view: &FilterView<'_>) -> bool {
        let target = match self.list.target {
            AllowTarget::Secret => view.secret,
            AllowTarget::Match => view.matched,
            AllowTarget::Line => view.lines,
        };
        self.list.regexes.iter().any(|regex| regex.is_match(target))
    }
}
