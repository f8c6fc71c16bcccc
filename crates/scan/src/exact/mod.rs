//! The exact stage: from candidates to matches.
