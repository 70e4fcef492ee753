//! The caller's local time, and its formatting as templates ask for it.

/// A local date and time. Cores have no clock of their own, so the host passes it in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTime {
    /// Year of the Gregorian calendar.
    pub year: i32,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 60.
    pub second: u8,
}

const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

impl LocalTime {
    /// Days since Monday.
    fn weekday(&self) -> usize {
        // Sakamoto's method, over years that begin in March; its 0 is Sunday.
        const OFFSETS: [i64; 12] = [0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4];
        let year = i64::from(self.year) - i64::from(self.month < 3);
        let leaps = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
        let from_sunday = year + leaps + OFFSETS[self.month_index()] + i64::from(self.day);
        (from_sunday + 6).rem_euclid(7) as usize
    }

    /// Day of the year, from 1.
    fn year_day(&self) -> u32 {
        const BEFORE: [u32; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
        let leap = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        BEFORE[self.month_index()] + u32::from(self.day) + u32::from(leap && self.month > 2)
    }

    /// 0 to 11, also for a month out of range.
    fn month_index(&self) -> usize {
        usize::from(self.month.clamp(1, 12) - 1)
    }

    fn hour_of_12(&self) -> u8 {
        match self.hour % 12 {
            0 => 12,
            hour => hour,
        }
    }

    /// Formats as C's `strftime`; a directive it does not know stays as it is. `-` after `%` drops padding.
    pub fn format(&self, format: &str) -> String {
        let mut text = String::with_capacity(format.len() + 16);
        let mut rest = format.chars();
        while let Some(character) = rest.next() {
            if character != '%' {
                text.push(character);
                continue;
            }
            let mut ahead = rest.clone();
            let mut directive = ahead.next();
            let unpadded = directive == Some('-');
            if unpadded {
                directive = ahead.next();
            }
            match directive.and_then(|directive| self.field(directive, unpadded)) {
                Some(field) => {
                    text.push_str(&field);
                    rest = ahead;
                }
                None => text.push('%'),
            }
        }
        text
    }

    fn field(&self, directive: char, unpadded: bool) -> Option<String> {
        let number = |value: u32, width: usize| match unpadded {
            true => value.to_string(),
            false => format!("{value:0width$}"),
        };
        let month = MONTHS[self.month_index()];
        let weekday = WEEKDAYS[self.weekday()];
        Some(match directive {
            'Y' => self.year.to_string(),
            'y' => number(self.year.rem_euclid(100) as u32, 2),
            'm' => number(self.month.into(), 2),
            'd' => number(self.day.into(), 2),
            'e' => format!("{:>2}", self.day),
            'j' => number(self.year_day(), 3),
            'H' => number(self.hour.into(), 2),
            'I' => number(self.hour_of_12().into(), 2),
            'M' => number(self.minute.into(), 2),
            'S' => number(self.second.into(), 2),
            'p' => if self.hour < 12 { "AM" } else { "PM" }.to_owned(),
            'B' => month.to_owned(),
            'b' | 'h' => month[..3].to_owned(),
            'A' => weekday.to_owned(),
            'a' => weekday[..3].to_owned(),
            'u' => (self.weekday() + 1).to_string(),
            'w' => ((self.weekday() + 1) % 7).to_string(),
            'F' => self.format("%Y-%m-%d"),
            'T' => self.format("%H:%M:%S"),
            'R' => self.format("%H:%M"),
            'D' => self.format("%m/%d/%y"),
            '%' => "%".to_owned(),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::LocalTime;

    #[test]
    fn agrees_with_the_c_library() {
        // date -d '2024-02-29 00:05:09' / '2026-11-29 13:07:05' / '2000-01-01 12:00:00' +FORMAT
        let format = "%A %a %B %b %d %-d %e %j %Y %y %m %-m %H %I %-I %M %S %p %u %w %F %T %D %R %%";
        let at = |year, month, day, hour, minute, second| {
            LocalTime { year, month, day, hour, minute, second }.format(format)
        };
        assert_eq!(
            at(2024, 2, 29, 0, 5, 9),
            "Thursday Thu February Feb 29 29 29 060 2024 24 02 2 00 12 12 05 09 AM 4 4 \
             2024-02-29 00:05:09 02/29/24 00:05 %"
        );
        assert_eq!(
            at(2026, 11, 29, 13, 7, 5),
            "Sunday Sun November Nov 29 29 29 333 2026 26 11 11 13 01 1 07 05 PM 7 0 \
             2026-11-29 13:07:05 11/29/26 13:07 %"
        );
        assert_eq!(
            at(2000, 1, 1, 12, 0, 0),
            "Saturday Sat January Jan 01 1  1 001 2000 00 01 1 12 12 12 00 00 PM 6 6 \
             2000-01-01 12:00:00 01/01/00 12:00 %"
        );
    }
}
