# Lists, decides on and approves the scheduled events of one VM: Events.ps1 -Vm NAME [-Once]
param([Parameter(Mandatory)] [string] $Vm, [switch] $Once)

$address = if ($env:SCHEDULED_EVENTS_URL) { $env:SCHEDULED_EVENTS_URL } else { 'http://169.254.169.254/metadata/scheduledevents' }
$uri = "${address}?api-version=2020-07-01"
$headers = @{ Metadata = 'true' }
$doneWith = @{}

function Look {
    # Metadata never goes through a proxy.
    $document = Invoke-RestMethod -Uri $uri -Headers $headers -NoProxy -TimeoutSec 10
    foreach ($happening in $document.Events) {
        $isMine = $happening.Resources -contains $Vm   # without regard to case, as names are compared
        if (-not $isMine -or $happening.EventStatus -ne 'Scheduled' -or $doneWith[$happening.EventId]) { continue }
        Write-Output "$($happening.EventType) of $Vm, not before $($happening.NotBefore)"
        $isShort = $happening.EventType -eq 'Freeze' -and $happening.DurationInSeconds -ge 0 -and $happening.DurationInSeconds -lt 10
        if (-not $isShort) {
            Write-Output "getting ready for $($happening.EventType)"   # stop taking work, save what must be saved
        }
        $body = @{ StartRequests = @(@{ EventId = $happening.EventId }) } | ConvertTo-Json -Depth 3
        Invoke-RestMethod -Method Post -Uri $uri -Headers $headers -Body $body -NoProxy -TimeoutSec 10 | Out-Null
        $doneWith[$happening.EventId] = $true
        Write-Output "approved $($happening.EventId)"
    }
}

do {
    try { Look } catch { [Console]::Error.WriteLine("not answered: $_") }   # the next look comes soon
    if (-not $Once) { Start-Sleep -Seconds 1 }
} until ($Once)
