//! Tests of plain files and bare expressions.

use super::*;

#[test]
fn each_line_is_an_expression() {
    let folder = TestFolder::new();
    let path = folder.write("words.txt", "# comment\n\nab+c\n  \n #d\r\n(\n\\# e ");
    let set = read_file(&path).unwrap();
    let name = |line: u32| format!("{}:{line}", path.display());
    assert_eq!(ids(&set), [name(3), name(5), name(7)]);
    assert_eq!(expression(&set, &name(3)), "ab+c");
    assert_eq!(expression(&set, &name(5)), " #d");
    assert_eq!(expression(&set, &name(7)), "\\# e ");
    assert_eq!(set.rules[0].origin.line, Some(3));
    assert_eq!(rejected(&set), [(name(6).as_str(), 6, "bad `regex`: unclosed group at byte 0")]);
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_expression() {
    let folder = TestFolder::new();
    let path = folder.write("words", "\u{feff}abc\n");
    let set = read_file(&path).unwrap();
    assert_eq!(set.rules[0].expression.as_ref().unwrap().text(), "abc");
}

#[test]
fn a_bare_expression_has_no_filters() {
    let rule = from_expression("-e 1", "a(b)").unwrap();
    assert_eq!((rule.id.as_str(), rule.filters), ("-e 1", FilterUse::Skip));
    assert_eq!(rule.expression.unwrap().text(), "a(b)");
    assert_eq!(from_expression("x", "a)").unwrap_err().at, Some(1));
}
