// The heading of a table: columns of text, then columns of numbers.
export function Columns({ texts, numbers }: { texts: string[]; numbers: string[] }) {
  return (
    <thead>
      <tr>
        {texts.map((name) => (
          <th scope="col" key={name}>
            {name}
          </th>
        ))}
        {numbers.map((name, place) => (
          <th scope="col" class="number" key={`${place} ${name}`}>
            {name}
          </th>
        ))}
      </tr>
    </thead>
  );
}
