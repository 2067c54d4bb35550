import { Fragment } from "preact";
import { localZone, now, parts, zone as shownZone } from "../time";
import { When } from "./When";

type Occurrence = { at: string; note: string | null };

/** Coming occurrences on the viewer's clock and on the schedule's, with what daylight saving does to them. */
export function Occurrences({ label, occurrences, zone = "UTC" }: { label: string; occurrences: Occurrence[]; zone?: string }) {
  const own = shownZone.value === "utc" ? "UTC" : localZone;
  const hasTwo = own !== zone;
  return (
    <table class="plain-table occurrences" aria-label={label}>
      <thead><tr><th scope="col">When</th><th scope="col">{zone}</th>{hasTwo && <th scope="col">{own}</th>}</tr></thead>
      <tbody>
        {occurrences.map((one) => (
          <Fragment key={one.at}>
            <tr class={one.note ? "has-note" : undefined}>
              <td><When at={one.at} zone={zone} /></td>
              <td class="number"><Clock at={Date.parse(one.at)} zone={zone} /></td>
              {hasTwo && <td class="number"><Clock at={Date.parse(one.at)} zone={own} /></td>}
            </tr>
            {one.note && <tr class="note-row"><td colSpan={hasTwo ? 3 : 2}>{one.note}</td></tr>}
          </Fragment>
        ))}
      </tbody>
    </table>
  );
}

const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

/** "Tue 11-17 20:45:00 UTC+1"; with the year, if it is another one than now. */
function Clock({ at, zone }: { at: number; zone: string }) {
  const p = parts(at, zone);
  const day = DAYS[new Date(Date.UTC(Number(p.year), Number(p.month) - 1, Number(p.day))).getUTCDay()];
  const year = p.year === parts(now(), zone).year ? "" : `${p.year}-`;
  return <>{day} {year}{p.month}-{p.day} {p.hour}:{p.minute}:{p.second} <span class="faint wide">{p.offset}</span></>;
}
