//! A frame as lines of text with colours: what the screen shows and `--once` prints.

use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use replay::host_memory::source;

use super::frame::{DeviceFrame, Frame, PoolFrame, StackFrame};
use crate::bytes::show;
use crate::table::Table;

/// Bytes that differ in how they are used: what is allocated, what waits for other streams, what is cached.
const BAR: [(char, Color); 3] = [('█', Color::Green), ('▓', Color::Yellow), ('▒', Color::Blue)];
const BAR_REST: char = '·';
/// Rows of pools and stacks, and newest events, that are shown.
const POOLS: usize = 12;
const STACKS: usize = 8;
const EVENTS: usize = 6;

/// The whole text. Only the `selected` device is shown in detail; all of them where none is.
pub(super) fn lines(frame: &Frame, selected: Option<usize>, width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![header(frame, width)];
    for (number, device) in frame.devices.iter().enumerate() {
        lines.push(Line::default());
        summary(device, width, &mut lines);
        if selected.is_none_or(|selected| selected == number) {
            details(device, width, &mut lines);
        }
    }
    lines
}

fn header(frame: &Frame, width: usize) -> Line<'static> {
    let command = frame.command.as_deref().unwrap_or_default();
    let text = cut(&format!("process {}  {command}", frame.pid), width.saturating_sub(24));
    let state = if frame.is_live { "live".green() } else { "the process has ended".red().bold() };
    Line::from(vec![text.bold(), "  ".into(), state])
}

fn summary(device: &DeviceFrame, width: usize, lines: &mut Vec<Line<'static>>) {
    let step = device.step.as_ref().map(|step| format!("  {step}")).unwrap_or_default();
    let rate = format!("  {} events/s", rate(device.events_per_second));
    lines.push(Line::from(vec![
        format!("device {} {}", device.device, device.name).trim_end().to_owned().bold(),
        rate.into(),
        step.into(),
    ]));
    if !device.is_known {
        lines.push(Line::from(
            "  its memory is not known: the ring turns over too fast to be read".yellow(),
        ));
        return;
    }
    lines.push(bar(device, width));
    let limit = device.limit_bytes.map(|bytes| format!(" of {}", show(bytes))).unwrap_or_default();
    lines.push(Line::from(format!(
        "  allocated {}  active {}  reserved {}{limit}",
        show(device.allocated_bytes),
        show(device.active_bytes),
        show(device.reserved_bytes),
    )));
    lines.push(Line::from(vec![
        format!(
            "  waste {} ({}), largest free {}  ",
            show(device.waste_bytes),
            percent(device.waste_bytes, device.reserved_bytes),
            show(device.largest_free_bytes),
        )
        .into(),
        to_oom(device),
    ]));
    lines.push(Line::from(format!(
        "  {} blocks, since this view began at most {} allocated, {} reserved",
        device.live_blocks,
        show(device.peak_allocated_bytes),
        show(device.peak_reserved_bytes),
    )));
    if let Some(host) = device.host_memory {
        let used = host.active_bytes.map(|bytes| format!(", {} in use", show(bytes)));
        lines.push(Line::from(format!(
            "  pinned host memory {}{}, at most {} (of the process, at its last mark; {})",
            show(host.reserved_bytes),
            used.unwrap_or_default(),
            show(host.reserved_bytes_peak),
            source(&host),
        )));
    }
    for (count, what) in [
        (device.lost, "records came too fast for this view"),
        (device.lost_by_tape, "records are missing on the process's own tape"),
        (device.missing_blocks, "live blocks are not shown: the ring has no room for them"),
        (device.missing_segments, "segments are not shown: the ring has no room for them"),
        (device.missing_pools, "private pools are not shown: the ring has no room for them"),
    ] {
        if count > 0 {
            lines.push(Line::from(format!("  {count} {what}").yellow()));
        }
    }
}

fn to_oom(device: &DeviceFrame) -> Span<'static> {
    let Some(bytes) = device.to_oom_bytes else { return "to out of memory: unknown".into() };
    let is_close = device.limit_bytes.is_some_and(|limit| bytes < limit / 20);
    let text = format!("to out of memory {}", show(bytes));
    if is_close { text.red().bold() } else { text.into() }
}

/// Reserved memory by use, on a line as long as what the process may have.
fn bar(device: &DeviceFrame, width: usize) -> Line<'static> {
    let cells = width.saturating_sub(4).max(8);
    let whole =
        device.limit_bytes.unwrap_or(device.reserved_bytes).max(device.reserved_bytes).max(1);
    let ends = [device.allocated_bytes, device.active_bytes, device.reserved_bytes];
    let mut spans = vec![Span::from("  ")];
    let mut drawn = 0;
    for ((symbol, color), end) in BAR.into_iter().zip(ends) {
        let at = (end as f64 / whole as f64 * cells as f64).round() as usize;
        let count = at.saturating_sub(drawn);
        spans.push(Span::styled(symbol.to_string().repeat(count), Style::from(color)));
        drawn += count;
    }
    let rest = BAR_REST.to_string().repeat(cells.saturating_sub(drawn));
    spans.push(Span::styled(rest, Style::from(Modifier::DIM)));
    Line::from(spans)
}

fn details(device: &DeviceFrame, width: usize, lines: &mut Vec<Line<'static>>) {
    if !device.is_known {
        return;
    }
    lines.push(Line::default());
    lines.extend(pools(&device.pools).into_iter().map(|line| Line::from(cut(&line, width))));
    lines.push(Line::default());
    lines.push(Line::from("  largest stacks".bold()));
    if device.stacks.is_empty() {
        let none = "  no stacks recorded: set stacks:alloc in the VRAMTAPE_CONF of the process";
        lines.push(Line::from(none.dim()));
    }
    for stack in device.stacks.iter().take(STACKS) {
        lines.push(Line::from(cut(&stack_line(stack), width)));
    }
    lines.push(Line::default());
    lines.push(Line::from("  last segment events".bold()));
    let skipped = device.last_events.len().saturating_sub(EVENTS);
    for event in &device.last_events[skipped..] {
        let text = cut(&format!("  {}  {}", clock(event.time_ns), event.what), width);
        let is_oom = event.what.starts_with("OUT OF MEMORY");
        lines.push(if is_oom { Line::from(text.red().bold()) } else { Line::from(text) });
    }
    if device.last_events.is_empty() {
        lines.push(Line::from("  none".dim()));
    }
}

fn pools(pools: &[PoolFrame]) -> Vec<String> {
    let heads = [
        "pool",
        "stream",
        "kind",
        ">segments",
        ">reserved",
        ">allocated",
        ">pending",
        ">free",
        ">largest",
    ];
    let mut table = Table::new(&heads);
    let mut largest: Vec<_> = pools.iter().collect();
    largest.sort_by_key(|pool| std::cmp::Reverse(pool.reserved_bytes));
    for pool in largest.iter().take(POOLS) {
        table.row([
            pool.pool.clone(),
            pool.stream.clone(),
            pool.kind.to_owned(),
            pool.segments.to_string(),
            show(pool.reserved_bytes),
            show(pool.allocated_bytes),
            show(pool.pending_bytes),
            show(pool.free_bytes),
            show(pool.largest_free_bytes),
        ]);
    }
    let mut lines: Vec<_> = table.render().lines().map(|line| format!("  {line}")).collect();
    if pools.len() > POOLS {
        lines.push(format!("  and {} more", pools.len() - POOLS));
    }
    lines
}

/// A stack with its memory and its innermost frames, PyTorch's own first.
fn stack_line(stack: &StackFrame) -> String {
    let frames = match stack.frames.as_slice() {
        [] => "its frames are not in the ring".to_owned(),
        frames => frames.join(" < "),
    };
    format!("  {:>12}  {:>6} blocks  {frames}", show(stack.live_bytes), stack.blocks)
}

fn rate(per_second: f64) -> String {
    match per_second {
        rate if rate >= 1e6 => format!("{:.2} M", rate / 1e6),
        rate if rate >= 1e4 => format!("{:.1} k", rate / 1e3),
        rate => format!("{rate:.0}"),
    }
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0 %".to_owned();
    }
    format!("{:.1} %", part as f64 / whole as f64 * 100.0)
}

/// Time of day in UTC.
fn clock(time_ns: u64) -> String {
    let (seconds, millis) = (time_ns / 1_000_000_000 % 86_400, time_ns / 1_000_000 % 1_000);
    format!("{:02}:{:02}:{:02}.{millis:03}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// The text, up to what fits.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept = text.chars().take(width.saturating_sub(1)).collect::<String>();
    kept + "…"
}
