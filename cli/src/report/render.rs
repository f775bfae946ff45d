//! A report as Markdown, as text and as a page.

use std::fmt::Write;

use super::content::{Content, Row};
use crate::bytes;
use crate::table::Table;

/// For issues and pull requests.
pub(super) fn markdown(content: &Content) -> String {
    let code = |text: &str| format!("`{}`", text.replace('`', "'"));
    let mut text = format!("### GPU memory of {}\n\n", code(&title(content)));
    let figures = content.figures.iter().map(|(name, value)| format!("{name} **{value}**"));
    let figures = figures.collect::<Vec<_>>().join(", ");
    let _ = writeln!(text, "{}: {figures}.\n", capitalized(content.when));
    if let Some((verdict, why)) = &content.verdict {
        let _ = writeln!(text, "**Cause: {verdict}.** {}.\n", plain(&capitalized(why)));
    }
    if let Some(moment) = &content.moment {
        let _ = writeln!(text, "{}\n", plain(moment));
    }
    let mut table = |head: &str, rows: &[Row]| {
        if rows.is_empty() {
            return;
        }
        let _ = writeln!(text, "| {head} | size | share |\n|---|---:|---:|");
        for row in rows {
            let name = code(&row.name.replace('|', "/"));
            let _ = writeln!(text, "| {name} | {} | {} |", bytes::show(row.bytes), share(row));
        }
        text.push('\n');
    };
    table(&format!("reserved memory {}", content.parts_when), &content.parts);
    table(&format!("holders {}", content.when), &content.holders);
    if let Some(note) = &content.holders_note {
        let _ = writeln!(text, "{}\n", plain(note));
    }
    if !content.next_step.is_empty() {
        let _ = writeln!(text, "**Next:** {}.\n", plain(&content.next_step));
    }
    if !content.remedies.is_empty() {
        text.push_str("Would have helped, each replayed up to the request:\n\n");
        for remedy in &content.remedies {
            let _ = writeln!(text, "- {}", plain(remedy));
        }
        text.push('\n');
    }
    if let Some(note) = &content.at_least {
        let _ = writeln!(text, "{}\n", plain(note));
    }
    let facts = content.facts.iter().map(|(name, value)| format!("{name} {}", code(value)));
    let _ = writeln!(text, "{}", facts.collect::<Vec<_>>().join(" · "));
    text
}

/// Text in which Markdown finds no marks.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for one in text.chars() {
        if matches!(one, '\\' | '*' | '_' | '<' | '>' | '[' | ']' | '#' | '|' | '~' | '&') {
            plain.push('\\');
        }
        plain.push(one);
    }
    plain
}

/// For a terminal or a mail.
pub(super) fn text(content: &Content) -> String {
    let mut text = format!("GPU memory of {}\n", title(content));
    let figures = content.figures.iter().map(|(name, value)| format!("{name} {value}"));
    let figures = figures.collect::<Vec<_>>().join(", ");
    let _ = writeln!(text, "{}: {figures}", content.when);
    if let Some((verdict, why)) = &content.verdict {
        let _ = writeln!(text, "cause: {verdict}: {why}");
    }
    if let Some(moment) = &content.moment {
        let _ = writeln!(text, "\n{moment}");
    }
    text.push('\n');
    let parts = ("reserved memory", content.parts_when, &content.parts);
    for (head, when, rows) in [parts, ("holders", content.when, &content.holders)] {
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(text, "{head} {when}");
        let mut table = Table::new(&[">size", ">share", "by"]);
        for row in rows {
            table.row([bytes::show(row.bytes), share(row), row.name.clone()]);
        }
        text.push_str(&table.render());
        text.push('\n');
    }
    if let Some(note) = &content.holders_note {
        let _ = writeln!(text, "{note}\n");
    }
    if !content.next_step.is_empty() {
        let _ = writeln!(text, "Next: {}.", content.next_step);
    }
    if !content.remedies.is_empty() {
        text.push_str("Would have helped, each replayed up to the request:\n");
        for remedy in &content.remedies {
            let _ = writeln!(text, "- {remedy}");
        }
    }
    if let Some(note) = &content.at_least {
        let _ = writeln!(text, "{note}");
    }
    text.push('\n');
    for (name, value) in &content.facts {
        let _ = writeln!(text, "{name}: {value}");
    }
    text
}

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:52em;margin:2em auto;padding:0 1em;\
    color-scheme:light dark}table{border-collapse:collapse;margin:1em 0}th,td{padding:.15em .8em;text-align:left;\
    border-bottom:1px solid #8884}td:nth-child(n+2),th:nth-child(n+2){text-align:right}footer{opacity:.75;\
    font-size:13px;margin-top:2em}";

/// A page of its own, without scripts.
pub(super) fn html(content: &Content) -> String {
    let title = escaped(&title(content));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width\">\n<title>GPU memory of {title}</title>\n<style>{STYLE}</style>\n<h1>GPU memory \
         of {title}</h1>\n"
    );
    let figures = content.figures.iter().map(|(name, value)| format!("{name} <b>{value}</b>"));
    let figures = figures.collect::<Vec<_>>().join(", ");
    let _ = writeln!(page, "<p>{}: {figures}.</p>", capitalized(content.when));
    if let Some((verdict, why)) = &content.verdict {
        let why = escaped(&capitalized(why));
        let _ = writeln!(page, "<p><b>Cause: {verdict}.</b> {why}.</p>");
    }
    if let Some(moment) = &content.moment {
        let _ = writeln!(page, "<p>{}</p>", escaped(moment));
    }
    let mut table = |head: &str, rows: &[Row]| {
        if rows.is_empty() {
            return;
        }
        let _ = writeln!(page, "<table><tr><th>{head}<th>size<th>share</tr>");
        for row in rows {
            let (name, size) = (escaped(&row.name), bytes::show(row.bytes));
            let _ = writeln!(page, "<tr><td>{name}<td>{size}<td>{}</tr>", share(row));
        }
        page.push_str("</table>\n");
    };
    table(&format!("reserved memory {}", content.parts_when), &content.parts);
    table(&format!("holders {}", content.when), &content.holders);
    if let Some(note) = &content.holders_note {
        let _ = writeln!(page, "<p>{}</p>", escaped(note));
    }
    if !content.next_step.is_empty() {
        let _ = writeln!(page, "<p><b>Next:</b> {}.</p>", escaped(&content.next_step));
    }
    if !content.remedies.is_empty() {
        page.push_str("<p>Would have helped, each replayed up to the request:</p>\n<ul>\n");
        for remedy in &content.remedies {
            let _ = writeln!(page, "<li>{}</li>", escaped(remedy));
        }
        page.push_str("</ul>\n");
    }
    if let Some(note) = &content.at_least {
        let _ = writeln!(page, "<p>{}</p>", escaped(note));
    }
    page.push_str("<footer>\n");
    for (name, value) in &content.facts {
        let _ = writeln!(page, "<div>{}: {}</div>", escaped(name), escaped(value));
    }
    page.push_str("</footer>\n</html>\n");
    page
}

fn title(content: &Content) -> String {
    match content.device {
        0 => content.run.clone(),
        device => format!("{}, device {device}", content.run),
    }
}

fn share(row: &Row) -> String {
    format!("{:.1} %", row.share_percent)
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_run_are_no_marks_of_the_format() {
        let row = |name: &str| Row { name: name.to_owned(), bytes: 512, share_percent: 100.0 };
        let content = Content {
            run: "<b>`run`.vtape".to_owned(),
            device: 2,
            at_least: None,
            figures: vec![("allocated", "512 B".to_owned())],
            verdict: Some(("capacity", "a_b *c*".to_owned())),
            moment: None,
            when: "at the peak",
            parts_when: "at the peak",
            parts: Vec::new(),
            holders: vec![row("a|b `c` <script>")],
            holders_note: None,
            next_step: "<i>x</i>".to_owned(),
            remedies: Vec::new(),
            facts: vec![("command".to_owned(), "python '<x>'".to_owned())],
        };
        let markdown = markdown(&content);
        assert!(markdown.starts_with("### GPU memory of `<b>'run'.vtape, device 2`\n"));
        assert!(markdown.contains("| `a/b 'c' <script>` | 512 B | 100.0 % |"), "{markdown}");
        assert!(markdown.contains(r"A\_b \*c\*"), "{markdown}");
        let page = html(&content);
        assert!(!page.contains("<script>") && !page.contains("<i>") && page.contains("&lt;b&gt;"));
    }
}
