// Icons, drawn here so that nothing is fetched for them.

const PATHS = {
  menu: "M4 6.500h16M4 12h16M4 17.500h16",
  plus: "M12 5v14M5 12h14",
  close: "M6 6l12 12M18 6 6 18",
  send: "M12 19V5M5.500 11.500 12 5l6.500 6.500",
  stop: "M7 7h10v10H7z",
  chip: "M8 8h8v8H8zM5 5h14v14H5zM9 2v3M15 2v3M9 19v3M15 19v3M2 9h3M2 15h3M19 9h3M19 15h3",
  gear: "M4 7h9M17 7h3M4 17h3M11 17h9M15 4.500v5M9 14.500v5",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  folder: "M3 6h6l2 2.500h10V19H3z",
  link:
    "M10 14a4 4 0 0 0 5.700 0l3.300-3.300a4 4 0 0 0-5.700-5.700l-1 1" +
    "M14 10a4 4 0 0 0-5.700 0L5 13.300a4 4 0 0 0 5.700 5.700l1-1",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  redo: "M4 12a8 8 0 1 1 2.500 5.800M4 12V6.500M4 12h5.500",
  pen: "M4 20l1-4.500L16 4.500l3.500 3.500L8.500 19z",
  left: "M14.500 6 8.500 12l6 6",
  right: "M9.500 6l6 6-6 6",
  bin: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  text: "M5 5h14M5 10h14M5 15h9M5 20h6",
  out: "M12 15V4M7.500 8.500 12 4l4.500 4.500M5 15v5h14v-5",
  into: "M12 4v11M7.500 10.500 12 15l4.500-4.500M5 15v5h14v-5",
  pulse: "M3 12h4l3-7 4 14 3-7h4",
  check: "M5 12.500l4.500 4.500L19 7.500",
  disk:
    "M5 6c0-1.700 14-1.700 14 0v12c0 1.700-14 1.700-14 0z" +
    "M5 6c0 1.700 14 1.700 14 0M5 12c0 1.700 14 1.700 14 0",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}

/** The window above a door that the project is named after. */
export function Fan({ size }: { size: "small" | "large" }) {
  return (
    <svg class={`fan ${size}`} viewBox="0 0 64 36" aria-hidden="true">
      <path class="pane" d="M3 33a29 29 0 0 1 58 0Z" />
      <path d="M3 33a29 29 0 0 1 58 0ZM22 33a10 10 0 0 1 20 0M32 23V4" />
      <path d="M24.930 25.930 11.490 12.490M39.070 25.930l13.440-13.440" />
      <path d="M28.170 23.760 20.900 6.210M35.830 23.760 43.100 6.210" />
      <path d="M22.760 29.170 5.210 21.900M41.240 29.170l17.550-7.270" />
    </svg>
  );
}
